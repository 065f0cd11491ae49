"""What the Runner knows of a turn: being opened, resumed, running; and nothing once all of that is over."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages import protocol as p
from actors.messages.config import RunConfig
from actors.messages.event import Event
from actors.runner.running_turn import OpeningMessage, RunningTurn
from actors.runner.turns import TurnTable
from tests.support.fixtures.session_fixture import KEY, settled
from tests.support.tries import tries

TURN = (KEY, "e-1")


def running(epoch: int = 1, turn: str = "e-1", generation: str = "g") -> RunningTurn:
    message = OpeningMessage(Event(), p.StoredEvent(1, b""), RunConfig())
    return RunningTurn(p.TurnRef(KEY, turn, epoch, generation=generation), "root", message, None)


def test_a_turn_is_there_while_it_is_opened_and_while_it_runs() -> None:
    async def play() -> None:
        table, turn = TurnTable(), running()
        assert TURN not in table
        with table.opening(TURN):
            assert TURN in table
            assert table.is_opening(TURN)
            assert table.get(TURN) is None
            table.add(turn)
        assert TURN in table
        assert not table.is_opening(TURN)
        assert (table.get(TURN), table.running(), len(table)) == (turn, [TURN], 1)
        with table.closing(turn):
            assert TURN in table
            assert (table.get(TURN), table.running(), len(table)) == (None, [], 0)
        assert TURN not in table

    asyncio.run(play())


async def test_who_asks_for_a_turn_that_is_being_closed_waits_for_its_task() -> None:
    table, turn = TurnTable(), running()
    may_end = asyncio.Event()

    async def run() -> None:
        with table.closing(turn):
            await may_end.wait()

    table.add(turn)
    await table.closed(TURN)
    turn.task.start(run())
    await settled()
    waiting = asyncio.create_task(table.closed(TURN))
    await settled()
    assert not waiting.done()
    may_end.set()
    await waiting
    assert TURN not in table


def test_the_end_of_a_turn_that_was_replaced_leaves_the_newer_one() -> None:
    table, old, new = TurnTable(), running(1), running(2)
    table.add(old)
    table.add(new)
    with table.closing(old):
        assert table.get(TURN) is new
    assert table.get(TURN) is new


def test_a_turn_that_runs_in_a_newer_epoch_is_over_in_the_older_one_and_stays_cancelled() -> None:
    table, old, new = TurnTable(), running(1), running(2)
    table.add(old)
    old.task.begin_run()
    old.task.cancel()
    table.add(new)
    assert new.task.life.was_cancelled
    assert old.task.life.phase == "replaced"


async def test_a_turn_in_a_newer_epoch_is_alone_when_the_older_one_has_ended() -> None:
    table, old, new = TurnTable(), running(1), running(2)
    may_end = asyncio.Event()
    table.add(old)
    old.task.start(ended(may_end))
    table.add(new)
    alone = asyncio.create_task(new.task.is_alone())
    await settled()
    assert not alone.done()
    may_end.set()
    await alone


async def ended(may_end: asyncio.Event) -> None:
    await may_end.wait()


def test_a_turn_may_be_closed_after_the_one_that_has_replaced_it() -> None:
    table, old, new = TurnTable(), running(1), running(2)
    table.add(old)
    table.add(new)
    with table.closing(old):
        with table.closing(new):
            assert TURN in table
        assert TURN not in table
    assert TURN not in table


def test_a_turn_is_not_added_in_an_epoch_that_is_over() -> None:
    async def play() -> None:
        table, new = TurnTable(), running(2)
        with table.opening(TURN):
            assert table.add(new)
            assert not table.add(running(1))
            assert not table.add(running(2))
            assert table.get(TURN) is new
            with table.closing(new):
                assert not table.add(running(2))
            assert not table.add(running(1))
            assert table.get(TURN) is None
            # The turn was rewound, and another one begins under its id.
            again = running(1, generation="h")
            assert table.add(again)
            assert not table.add(running(1))
            assert table.get(TURN) is again
            assert table.add(running(3, generation="h"))

    asyncio.run(play())


async def test_who_waits_for_an_opening_waits_for_all_that_open_the_turn_or_for_the_time() -> None:
    table = TurnTable()
    await table.opened(TURN, 60.0)
    with table.opening(TURN):
        await table.opened(TURN, 0.0)
        with table.opening(TURN):
            waiting = asyncio.create_task(table.opened(TURN, 60.0))
            await settled()
        await settled()
        assert not waiting.done()
    await waiting
    assert not table.is_opening(TURN)


async def test_one_request_at_a_time_resumes_a_turn_and_others_resume_other_turns() -> None:
    table = TurnTable()
    inside: list[str] = []
    may = asyncio.Event()

    async def resume(turn: str, who: str) -> None:
        async with table.resuming((KEY, turn)):
            inside.append(who)
            await may.wait()
            inside.remove(who)

    asked = [asyncio.create_task(resume("e-1", who)) for who in ("a", "b")]
    asked.append(asyncio.create_task(resume("e-2", "other")))
    await settled()
    assert sorted(inside) == ["a", "other"]
    may.set()
    await asyncio.gather(*asked)
    assert inside == []


async def test_the_lock_of_a_turn_is_the_same_for_who_comes_while_others_wait_for_it() -> None:
    table = TurnTable()
    at_once = most_at_once = 0

    async def resume() -> None:
        nonlocal at_once, most_at_once
        async with table.resuming(TURN):
            at_once += 1
            most_at_once = max(most_at_once, at_once)
            await asyncio.sleep(0)
            at_once -= 1

    async def late(after: int) -> None:
        for _ in range(after):
            await asyncio.sleep(0)
        await resume()

    await asyncio.gather(*(late(after) for after in range(8)))
    assert most_at_once == 1


STEPS = st.lists(st.sampled_from(["open", "close", "add", "end", "closed"]), max_size=12)


@settings(max_examples=tries(100))
@given(STEPS)
def test_when_everything_is_over_nothing_is_kept(steps: list[str]) -> None:
    async def play() -> None:
        table = TurnTable()
        blocks: list[ExitStack] = []
        closings: list[ExitStack] = []
        newest: ExitStack | None = None
        runs: list[RunningTurn] = []
        for step in steps:
            match step:
                case "open":
                    block = ExitStack()
                    block.enter_context(table.opening(TURN))
                    blocks.append(block)
                case "closed" if closings:
                    closings[-1].close()
                    newest = None if closings.pop() is newest else newest
                case "close" if blocks:
                    blocks.pop(0).close()
                case "add":
                    runs.append(running(len(runs) + 1))
                    table.add(runs[-1])
                case "end" if runs:
                    newest = ExitStack()
                    newest.enter_context(table.closing(runs.pop(0)))
                    closings.append(newest)
            assert (TURN in table) == (table.get(TURN) is not None or table.is_opening(TURN) or newest is not None)
        for block in [*blocks, *closings]:
            block.close()
        for turn in runs:
            with table.closing(turn):
                pass
        assert table._entries == {}
        await settled()

    asyncio.run(play())


@pytest.mark.parametrize("turn", ["e-1", "e-2"])
def test_a_turn_is_known_by_its_session_and_its_id(turn: str) -> None:
    table = TurnTable()
    table.add(running(turn=turn))
    assert (KEY, turn) in table
    assert (KEY, "e-3") not in table


async def test_it_is_emptied_when_nothing_goes_on_with_any_turn() -> None:
    table, turn = TurnTable(), running()
    assert await table.emptied(0) == 0
    with table.opening(TURN):
        table.add(turn)
    over = asyncio.create_task(table.emptied(60))
    await settled()
    assert (await table.emptied(0), over.done()) == (1, False)
    with table.closing(turn), table.opening((KEY, "e-2")):
        assert await table.emptied(0) == 2
    # Another one begins before the first waiter has heard of it.
    opening = table.opening((KEY, "e-3"))
    opening.__enter__()
    await settled()
    assert not over.done()
    opening.__exit__(None, None, None)
    assert await over == 0
