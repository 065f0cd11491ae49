"""What a Session actor does for a Runner in the place of a lost one, and for lists of turns in line, beside open sessions."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from pathlib import Path

import pytest

from actors.interfaces.records import TurnRow
from actors.layers.listing.messages import CountTurns
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from tests.support.counted_lines import counted_lines
from tests.support.fixtures.session_fixture import KEY, FailingStore, SessionFixture, settled

LOST, NEXT = "runner/1", "runner/2"
OPEN_TURNS = 3


def key_of(number: int) -> SessionKey:
    return SessionKey("app", f"u{number}", "s")


async def opened(session: SessionFixture, idle: int) -> None:
    """Have turns under way, and beside them sessions open whose turns have ended."""
    for number in range(idle):
        await session.open("e-1", key=key_of(number), runner=LOST)
        await session.close("e-1", key=key_of(number))
    for number in range(idle, idle + OPEN_TURNS):
        await session.open("e-1", key=key_of(number), runner=LOST)


async def test_it_costs_the_same_with_ten_sessions_open_and_with_a_hundred(tmp_path: Path) -> None:
    taken: dict[int, list[int]] = {}
    # What is done once in a process is done the first time.
    for number, idle in enumerate((10, 10, 100)):
        folder = tmp_path / str(number)
        folder.mkdir()
        session = SessionFixture(folder)
        await opened(session, idle)
        assert (await session.counts())["sessions_in_memory"] == idle + OPEN_TURNS
        announced, listed, counted = Counter[str](), Counter[str](), Counter[str]()
        with counted_lines(announced):
            assert await session.ref.ask(p.AnnounceRunner(runner=NEXT, number=0)) == p.Ack()
        with counted_lines(listed):
            reply = await session.ref.ask(p.ListOpenTurns(app="app", runner=NEXT))
        assert isinstance(reply, p.OpenTurnsReply)
        assert {key for key, _ in reply.turns} == {key_of(idle + each) for each in range(OPEN_TURNS)}
        with counted_lines(counted):
            assert (await session.ref.ask(CountTurns(app="app", in_line_only=True))).in_line == 0
        taken[idle] = [counts["lines"] for counts in (announced, listed, counted)]
        await session.ref.stop()
    assert taken[10] == taken[100]
    assert min(taken[10]) > 0


@pytest.mark.parametrize("seed", range(3))
async def test_logs_in_use_are_those_in_memory_of_which_a_turn_is_open_or_waits(tmp_path: Path, seed: int) -> None:
    session, chance = SessionFixture(tmp_path), random.Random(seed)
    logs = session.actor._logs
    running: dict[SessionKey, str] = {}
    in_line: dict[SessionKey, list[tuple[str, asyncio.Task[p.OpenTurnReply]]]] = {}
    for number in range(60):
        key = key_of(chance.randrange(4))
        step, turn = chance.choice(["open", "open", "close", "close", "delete", "evict"]), f"e-{number}"
        waiting = in_line.setdefault(key, [])
        if step == "open" and key in running:
            waiting.append((turn, asyncio.create_task(session.ask_to_open(turn, key=key))))
        elif step == "open":
            await session.open(turn, key=key)
            running[key] = turn
        elif step == "close" and key in running:
            await session.close(running.pop(key), key=key)
            if waiting:
                running[key], begins = waiting.pop(0)
                assert isinstance(await begins, p.TurnBegun)
        elif step == "delete" and key not in running:
            await session.ref.ask(p.DeleteSessionRequest(key=key))
        elif step == "evict" and key not in running:
            logs.evict(key)
        await settled()
        found = {log.key for log in logs.all_in_memory(in_use=True)}
        assert found == {log.key for log in logs.all_in_memory() if log.turn is not None or log.queue} == set(running)
    left = [task for waiting in in_line.values() for _, task in waiting]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await session.ref.stop()


async def test_a_log_that_has_left_memory_in_use_says_nothing_of_the_one_that_was_read_after_it(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path)
    await session.open(key=key_of(0))
    logs = session.actor._logs
    (gone,) = logs.all_in_memory(in_use=True)
    logs.evict(gone.key)
    assert logs.all_in_memory(in_use=True) == []
    read = await logs.load(gone.key)
    assert read is not gone
    assert logs.all_in_memory(in_use=True) == [read]
    gone.queue.start_next()
    assert logs.all_in_memory(in_use=True) == [read]
    await session.ref.stop()


class SlowLists(FailingStore):
    """Lists open turns as they are when it is asked, and says so when it may."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_asked, self.may_reply = threading.Event(), threading.Event()

    def running(self, app: str) -> list[tuple[SessionKey, TurnRow]]:
        found = super().running(app)
        self.is_asked.set()
        self.may_reply.wait(20)
        return found


async def test_a_turn_is_lost_until_it_is_stored_that_it_is_resumed(tmp_path: Path) -> None:
    # Of two requests that recover turns neither may end before the other has stored that it goes on with them.
    session = SessionFixture(tmp_path, store=SlowLists)
    assert isinstance(session.store, SlowLists)
    await session.open("e-1", runner=LOST)
    await session.ref.ask(p.AnnounceRunner(runner=NEXT, number=0))
    listing = asyncio.create_task(session.ref.ask(p.ListOpenTurns(app=KEY.app, runner=NEXT)))
    await asyncio.to_thread(session.store.is_asked.wait, 20)
    resuming = asyncio.create_task(session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner=NEXT)))
    await settled()
    session.store.may_reply.set()
    reply = await listing
    assert isinstance(reply, p.OpenTurnsReply)
    assert list(reply.turns) == [(KEY, "e-1")]
    assert isinstance(await resuming, p.TurnResumed)
    await session.ref.stop()
