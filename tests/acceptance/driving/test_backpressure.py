"""Slow, late and vanished readers: they get every complete event, delay no turn, and take bounded memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import ray

from actors import Content, CustomAgent, Event, InvocationContext, RunConfig
from actors.errors import RuntimeClosedError, StoreUnavailableError
from actors.messages import protocol as p
from actors.messages.event import decode_event
from actors.messages.session import SessionKey
from actors.refs import SessionRef
from actors.rules.event_buffer import MAX_BYTES
from runtime import Runtime
from runtime.cluster.transport.peer import Peer
from runtime.driver.turns.turn import Turn
from runtime.settings import Settings
from tests.support.fixtures.session_fixture import FailingStore
from tests.support.runtimes import Deploy, run_turn

SSE = RunConfig(streaming="sse")
LARGE = "x" * 50_000
"""So large that a turn of forty such events has no room in a backlog."""


class FloodingModel(CustomAgent):
    """Says many pieces of one answer, then the answer, then large events with their numbers."""

    pieces: int = 0
    events: int = 0

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for number in range(self.pieces):
            yield Event(partial=True, content=Content.of_text(f"{number} ", role="model"))
        if self.pieces:
            yield Event(content=Content.of_text("".join(f"{number} " for number in range(self.pieces)), role="model"))
        for number in range(self.events):
            yield Event(content=Content.of_text(f"{number} {LARGE}", role="model"))


def start(rt: Runtime, session_id: str = "s1") -> Turn:
    return rt.run(user_id="ada", session_id=session_id, message="go", run_config=SSE)


def numbers(events: Sequence[Event]) -> list[int]:
    """The numbers of the complete large events."""
    return [int(event.text.split()[0]) for event in events if not event.partial and event.text.endswith("x")]


def held(turn: Turn) -> int:
    """Bytes that a turn holds for its present and future readers."""
    readers = turn._state._readers
    return sum(backlog.size for backlog in (readers._kept, *readers._open))


def test_ten_thousand_pieces_that_nobody_reads_until_the_end_take_bounded_memory_and_no_word_is_missing(local: Deploy) -> None:
    with local(FloodingModel(name="root", pieces=10_000)) as rt:
        turn = start(rt)
        turn.result()
        assert held(turn) <= MAX_BYTES
        assert rt.statistics().session.counts["bytes_untold"] == 0
        *pieces, last = list(turn)
        words = "".join(f"{number} " for number in range(10_000))
        assert (last.seq, last.text) == (2, words)
        assert all(piece.partial for piece in pieces)
        assert "".join(piece.text for piece in pieces) == words
        assert 1 < len(pieces) < 10_000


def test_complete_events_that_nobody_reads_are_read_from_the_log_by_whoever_comes(local: Deploy) -> None:
    with local(FloodingModel(name="root", pieces=3, events=60)) as rt:
        turn = start(rt)
        turn.result()
        assert held(turn) <= MAX_BYTES
        for _ in range(2):
            told = list(turn)
            assert numbers(told) == list(range(60))
            assert [event.seq for event in told if not event.partial] == list(range(2, 63))
        assert numbers(turn.result().events) == list(range(60))
        assert held(turn) <= MAX_BYTES
        joined = rt.attach(user_id="ada", session_id="s1", invocation_id=turn.invocation_id, after_seq=20)
        assert numbers(list(joined)) == list(range(18, 60))


def test_a_reader_that_stops_in_the_middle_and_goes_on_later_misses_nothing(local: Deploy) -> None:
    with local(FloodingModel(name="root", pieces=5_000, events=60)) as rt:
        turn = start(rt)
        reading = iter(turn)
        told = [next(reading)]
        turn.result()
        assert held(turn) <= 2 * MAX_BYTES
        told += reading
        assert numbers(told) == list(range(60))
        complete = [event.seq for event in told if not event.partial]
        assert complete == list(range(2, 63))
        answer = told[[event.partial for event in told].index(None)].text
        assert answer.startswith("".join(event.text for event in told if event.partial))


async def test_the_same_holds_on_an_event_loop(local: Deploy) -> None:
    async with local(FloodingModel(name="root", pieces=3, events=60)) as rt:
        turn = start(rt)
        reading = aiter(turn)
        told = [await anext(reading)]
        result = await turn
        told += [event async for event in reading]
        assert numbers(told) == numbers(result.events) == list(range(60))


def test_slow_readers_of_one_turn_each_go_their_own_pace(local: Deploy) -> None:
    with local(FloodingModel(name="root", events=60)) as rt:
        turn = start(rt)
        first, second = iter(turn), iter(turn)
        told = {0: [next(first)], 1: [next(second)]}
        for _ in range(10):
            told[0].append(next(first))
        told[1] += second
        told[0] += first
        assert numbers(told[0]) == numbers(told[1]) == list(range(60))


def test_what_is_left_to_the_log_cannot_be_read_when_the_runtime_is_closed(local: Deploy) -> None:
    with local(FloodingModel(name="root", events=60)) as rt:
        turn = start(rt)
        turn.result()
    with pytest.raises(RuntimeClosedError):
        turn.result()


def test_a_reader_who_is_late_while_the_store_is_away_is_told_so_and_may_come_back(local: Deploy, tmp_path: Path) -> None:
    store = FailingStore(f"sqlite:///{tmp_path}/sessions.db")
    # More than the Session actor has in memory.
    with local(FloodingModel(name="root", events=200), session_store=store, settings=Settings(store_timeout_s=0.1)) as rt:
        turn = start(rt)
        turn.result()
        store.away = True
        told: list[Event] = []
        with pytest.raises(StoreUnavailableError):
            told.extend(turn)
        store.away = False
        assert 0 < len(told) < 200
        assert numbers(list(turn)) == list(range(200))


async def stalled(session: SessionRef, invocation_id: str) -> None:
    """A driver that follows a turn and never asks."""
    key = SessionKey("test", "ada", "s1")
    await session.subscribe(p.Subscribe(subscriber="stalled", key=key, invocation_id=invocation_id))


async def everything(session: SessionRef) -> tuple[list[Event], p.AnyOutcome]:
    """The events that this driver gets when it polls at last."""
    events: list[Event] = []
    ack = 0
    while True:
        news = await session.ask(p.Poll(subscriber="stalled", ack=ack))
        assert news.known
        ack = news.number
        for turn in news.turns:
            events += [decode_event(stored.raw, stored.seq) for stored in turn.events]
            if turn.outcome is not None:
                return events, turn.outcome


def test_a_driver_that_does_not_ask_holds_up_nobody_and_is_told_everything_when_it_does(local: Deploy) -> None:
    with local(FloodingModel(name="root", pieces=10_000, events=60)) as rt:
        turn = start(rt)
        reading = iter(turn)
        next(reading)
        rt._client.run(stalled(rt._client.session, turn.invocation_id))
        turn.result()
        counts = rt.statistics().session.counts
        assert 0 < counts["bytes_untold"] <= MAX_BYTES
        events, outcome = rt._client.run(everything(rt._client.session))
        assert isinstance(outcome, p.Finished)
        assert numbers(events) == list(range(60))
        assert [event.seq for event in events if not event.partial] == list(range(2, 63))
        assert rt.statistics().session.counts["bytes_untold"] == 0
        assert numbers(list(reading)) == list(range(60))


def test_a_driver_process_that_hangs_does_not_hold_the_turn_up_and_misses_nothing(local_ray: str, tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(FloodingModel(name="root", pieces=2_000, events=60)) as rt:
        turn = start(rt)
        reading = iter(turn)
        told = [next(reading)]
        hangs, may_go_on = threading.Event(), threading.Event()
        rt._client.call_soon(partial(hang, hangs, may_go_on))
        try:
            assert hangs.wait(60)
            assert asyncio.run(untold_at_the_end(events=62)) <= MAX_BYTES
        finally:
            may_go_on.set()
        told += reading
        assert numbers(told) == list(range(60))
        assert numbers(run_turn(rt, "again", "s2")) == list(range(60))


def hang(hangs: threading.Event, may_go_on: threading.Event) -> None:
    hangs.set()
    may_go_on.wait()


async def untold_at_the_end(events: int) -> int:
    """Wait until so many events are stored; return what the Session actor holds then. Needs no turn of the driver's loop."""
    handle = ray.get_actor("test/session", namespace=Settings().namespace)
    session = SessionRef(Peer(handle, "the Session actor", None).link("the Session actor"))
    async with asyncio.timeout(60):
        while (counts := (await session.statistics()).counts)["events"] < events:
            pass
    return counts["bytes_untold"]
