"""The buffer between a turn's subscriber and its readers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Content, Event
from actors.errors import RuntimeClosedError
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.rules.event_buffer import EventBuffer
from runtime.driver.turns.state import LoopSignal, TurnState, Woken, wake_together
from tests.support.fixtures.session_fixture import KEY, settled


def stored(seq: int) -> p.StoredEvent:
    """A complete event, or a partial one with the seq 0."""
    return p.StoredEvent(seq, encode(Event(author="a", partial=not seq, content=Content.of_text("x", role="model"))))


def seqs(events: Sequence[p.StoredEvent]) -> list[int]:
    return [event.seq for event in events]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=10), st.integers(0, 5))
def test_a_reader_that_comes_at_any_time_gets_every_complete_event_once_and_in_order(
    feeds: list[tuple[int, bool]], after_seq: int
) -> None:
    turn = TurnState(KEY, "e-1", after_seq=after_seq)
    log = [stored(after_seq + 1)]
    readers: list[tuple[EventBuffer, list[p.StoredEvent]]] = []
    for count, reads in feeds:
        readers.append((turn.open_reader(), []))
        # The last event comes once more, as when two subscribers have the turn.
        news = [log[-1], *(stored(log[-1].seq + 1 + number) for number in range(count))]
        log += news[1:]
        turn.feed(news, None)
        if reads and count:
            for buffer, heard in readers:
                heard += turn.wait_for_events(buffer)
    turn.feed(log[-1:], p.Finished())
    assert turn.is_over
    for buffer, heard in readers:
        heard += turn.wait_for_events(buffer)
        assert seqs(heard) == seqs(log)
    assert seqs(turn.copy_events().take_events()) == seqs(log)


def test_only_the_first_reader_gets_the_partial_events_that_came_before_it() -> None:
    turn = TurnState(KEY, "e-1")
    turn.feed([stored(0), stored(1)], None)
    first, second = turn.open_reader(), turn.open_reader()
    turn.feed([stored(0)], None)
    assert seqs(turn.wait_for_events(first)) == [0, 1, 0]
    assert seqs(turn.wait_for_events(second)) == [1, 0]


def test_a_reader_that_was_closed_gets_nothing_more() -> None:
    turn = TurnState(KEY, "e-1")
    buffer = turn.open_reader()
    turn.close_reader(buffer)
    turn.feed([stored(1)], p.Finished())
    assert turn.wait_for_events(buffer) == []


def test_the_user_s_message_and_what_stands_before_it_are_not_for_readers() -> None:
    turn = TurnState(KEY, "e-1")
    buffer = turn.open_reader()
    turn.feed([stored(3), stored(4)], None)
    turn.mark_started("a", 3)
    assert turn.after_seq == 4
    assert seqs(turn.wait_for_events(buffer)) == [4]


def test_whoever_waits_for_the_start_is_woken_also_when_the_turn_cannot_start() -> None:
    turn = TurnState(KEY, "e-1", is_answer=True)
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(turn.wait_until_started), threads.submit(turn.wait_for_end)]
        turn.fail(RuntimeClosedError("desk", "is closed"))
        assert [each.result(10) for each in waiting] == [None, None]
    assert (turn.agent, turn.is_over) == ("", True)


async def test_a_result_waits_for_the_reply_to_the_start_which_names_the_agent() -> None:
    turn = TurnState(KEY, "e-1")
    with ThreadPoolExecutor(1) as threads:
        in_thread = threads.submit(turn.wait_for_end)
        on_loop = asyncio.ensure_future(turn.wait_for_end_async())
        await settled()
        turn.feed([], p.Finished(agent="a"))
        await settled()
        await asyncio.sleep(0.05)
        assert (in_thread.done(), on_loop.done()) == (False, False)
        turn.mark_started("a")
        await on_loop
        await asyncio.wrap_future(in_thread)
    assert turn.agent == "a"


def test_a_start_that_fails_after_the_end_leaves_the_end() -> None:
    turn = TurnState(KEY, "e-1")
    turn.feed([], p.Finished(agent="a"))
    turn.fail(RuntimeClosedError("desk", "is closed"))
    turn.wait_for_end()
    assert (turn.outcome, turn.error) == (p.Finished(agent="a"), None)


def test_the_start_alone_wakes_no_reader() -> None:
    turn = TurnState(KEY, "e-1")
    looks: list[bool] = []

    def look() -> bool | None:
        looks.append(turn.is_started)
        return turn.is_over or None

    with ThreadPoolExecutor(2) as threads:
        reader, starter = (
            threads.submit(turn._changed.wait_for, look, turn._changed.readers),
            threads.submit(turn.wait_until_started),
        )
        while not (looks and turn._changed.starters):
            time.sleep(0.001)
        turn.mark_started("a")
        assert starter.result(10) is None
        time.sleep(0.05)
        turn.feed([], p.Finished())
        assert reader.result(10) is True
    assert looks == [False, True]


async def test_only_the_end_of_a_turn_that_was_started_wakes_what_waits_for_it() -> None:
    turn, looks = TurnState(KEY, "e-1"), 0
    changed = turn._changed

    def look() -> bool:
        nonlocal looks
        looks += 1
        return turn.is_over and turn.is_started

    waiting = asyncio.create_task(changed.wait_for_async(look, changed.enders))
    await settled()
    for seq in (1, 2, 3):
        turn.feed([stored(seq)], None)
    # The reply to the request may come after the end.
    turn.feed([], p.Finished())
    await settled()
    assert (looks, waiting.done()) == (1, False)
    turn.mark_started("a")
    await waiting
    assert looks == 2
    await turn.wait_for_end_async()


async def test_turns_that_end_at_once_wake_a_loop_once() -> None:
    turns = [TurnState(KEY, f"e-{number}") for number in range(3)]
    ends = [asyncio.create_task(turn.wait_for_end_async()) for turn in turns]
    loop, calls = asyncio.get_running_loop(), []
    await settled()
    woken: Woken = []
    for turn in turns:
        turn.mark_started("a")
        turn.feed([], p.Finished(), woken=woken)
    await settled()
    assert [end.done() for end in ends] == [False] * 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_soon_threadsafe", lambda call, *args: calls.append((call, *args)))
        wake_together(woken)
    ((call, *args),) = calls
    call(*args)
    await asyncio.gather(*ends)


async def test_coroutines_of_several_loops_and_threads_are_woken_by_each_change() -> None:
    turn = TurnState(KEY, "e-1")

    async def heard() -> list[int]:
        buffer, wakeup, events = turn.open_reader(), LoopSignal(), []
        while batch := await turn.wait_for_events_async(buffer, wakeup):
            events += batch
        return seqs(events)

    def heard_in_thread() -> list[int]:
        return asyncio.run(heard())

    with ThreadPoolExecutor(1) as threads:
        readers = [asyncio.ensure_future(heard()) for _ in range(2)]
        end = asyncio.ensure_future(turn.wait_for_end_async())
        elsewhere = threads.submit(heard_in_thread)
        await settled()
        turn.mark_started("a")
        for seq in (1, 2, 3):
            turn.feed([stored(seq)], p.Finished() if seq == 3 else None)
            await settled()
        assert await asyncio.gather(*readers) == [[1, 2, 3], [1, 2, 3]]
        await end
        assert await asyncio.wrap_future(elsewhere) == [1, 2, 3]


def test_a_loop_that_was_closed_while_it_waited_is_no_obstacle_for_others() -> None:
    turn = TurnState(KEY, "e-1")

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await turn.wait_for_events_async(turn.open_reader(), LoopSignal())

    asyncio.run(give_up())
    turn.feed([stored(1)], p.Finished())
    assert turn.is_over
