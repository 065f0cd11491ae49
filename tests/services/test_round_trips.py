"""How often turns go to the database: on PostgreSQL each time is a round trip over the network, in which a turn waits."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import psycopg
import pytest
from sqlalchemy import Engine, event

from actors import LlmAgent
from actors.messages.json_types import JsonMapping
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.stores.sql import writers
from runtime.testing import FrozenClock
from tests.support.runtimes import Deploy
from tests.support.sharded_runtimes import own_tables


class WireCounts:
    """Counts of all connections that are made while it listens.

    Args:
        folder: for the notes, a file for each connection.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notes: list[TextIO] = []
        self._numbers = itertools.count()
        self._statements = 0

    def note(self, connection: Any, _record: object) -> None:
        """Take notes of a new connection."""
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(self._count)
            return
        # Stores connect in threads of their own.
        notes = (self._folder / f"wire-{next(self._numbers)}").open("w+")
        self._notes.append(notes)
        assert isinstance(connection, psycopg.Connection)
        connection.pgconn.trace(notes.fileno())
        connection.pgconn.set_trace_flags(psycopg.pq.Trace.SUPPRESS_TIMESTAMPS)

    def _count(self, statement: str) -> None:
        # A pragma sets the connection up, and belongs to no commit.
        self._statements += not statement.startswith("PRAGMA")

    def close(self) -> None:
        """Take no more notes. The connections have to be closed."""
        ctypes.CDLL(None).fflush(None)
        for notes in self._notes:
            notes.close()

    @property
    def counts(self) -> Counter[str]:
        """`statements` so far; on PostgreSQL `round_trips` as well, and `plans` of statements that the server had to make."""
        ctypes.CDLL(None).fflush(None)
        found = Counter(statements=self._statements)
        for notes in self._notes:
            notes.seek(0)
            before = "B"
            for line in notes:
                sender, _, kind, *_ = [*line.rstrip("\n").split("\t"), "", ""]
                if sender not in ("F", "B"):
                    # The rest of a statement of several lines.
                    continue
                found["round_trips"] += (before, sender) == ("F", "B")
                found["statements"] += sender == "F" and kind in ("Execute", "Query")
                found["plans"] += sender == "F" and kind == "Parse"
                before = sender
        return found


@contextmanager
def counted(folder: Path) -> Iterator[WireCounts]:
    """Count what all stores say that connect within the block."""
    counts = WireCounts(folder)
    event.listen(Engine, "connect", counts.note)
    try:
        yield counts
    finally:
        event.remove(Engine, "connect", counts.note)
        counts.close()


DUE = 100
"""Schedules that are due in one second."""

WARM_UP = 2
"""Turns of a session before anything is counted: statements are prepared, and sids taken."""


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireCounts]:
    # Not while it is counted.
    monkeypatch.setattr(writers, "RENEW_S", 3600.0)
    with counted(tmp_path) as counts:
        yield counts


def agent() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="ok"))


async def turns(rt: Runtime, sessions: list[str], each: int, state: JsonMapping | None = None) -> None:
    """Run turns in all of these sessions at once, one after the other in each. They change that state."""

    async def talk(session: str) -> None:
        for _ in range(each):
            await rt.run(user_id=f"user {session}", session_id=session, message="hi", state_delta=state)

    await asyncio.gather(*map(talk, sessions))


async def cost(rt: Runtime, wire: WireCounts, sessions: list[str], each: int, state: JsonMapping | None = None) -> Counter[str]:
    """The counts of such turns, with the `commits` of the Session actor."""
    before = wire.counts + Counter(commits=rt.statistics().session.counts["commits"])
    await turns(rt, sessions, each, state)
    after = wire.counts + Counter(commits=rt.statistics().session.counts["commits"])
    return after - before


async def least_cost(rt: Runtime, wire: WireCounts, sessions: list[str], state: JsonMapping | None = None) -> Counter[str]:
    """The least of several counts of ten such turns: from time to time Session actors look whether their places are theirs."""
    return min([await cost(rt, wire, sessions, 10, state) for _ in range(4)], key=lambda counts: counts["statements"])


async def test_a_turn_on_postgresql_takes_two_round_trips_for_each_of_its_two_commits(
    server: str, wire: WireCounts, tmp_path: Path
) -> None:
    async with Deploy("local", tmp_path)(agent(), session_store=own_tables(server)) as rt:
        await turns(rt, ["s"], WARM_UP)
        # BEGIN and the count of the claim, then events, turns, the time of the session where the turn ends, and COMMIT.
        assert await cost(rt, wire, ["s"], 10) == {"commits": 20, "round_trips": 40, "statements": 110}


@pytest.mark.parametrize("shards", [1, 2])
async def test_turns_of_many_sessions_at_once_share_statements_on_postgresql(
    server: str, wire: WireCounts, tmp_path: Path, shards: int
) -> None:
    sessions, settings = [f"s{number}" for number in range(64)], Settings(session_shards=shards)
    async with Deploy("local", tmp_path)(agent(), session_store=own_tables(server), settings=settings) as rt:
        await turns(rt, sessions, WARM_UP)
        found = await cost(rt, wire, sessions, 4)
    assert found["commits"] <= 64 * shards
    if shards == 1:
        assert found["round_trips"] == 2 * found["commits"]
        assert found["statements"] <= 6 * found["commits"]


async def test_what_is_due_at_once_begins_with_few_round_trips_on_postgresql(
    server: str, wire: WireCounts, tmp_path: Path
) -> None:
    # On a machine that is busy the schedules would be due before all are created.
    clock = FrozenClock()
    async with Deploy("local", tmp_path)(agent(), session_store=own_tables(server), clock=clock) as rt:
        create, due_s = rt.aio.schedules.create, int(clock.now_s()) + 60
        await asyncio.gather(*(create(f"n{n}", user_id=f"u{n}", message="tick", at=due_s) for n in range(DUE)))
        before = wire.counts.copy()
        await asyncio.to_thread(clock.advance, 61)
        await rt.aio.turns.list(state="finished", limit=DUE)
        found = wire.counts - before
        assert len({turn.session_id for turn in await rt.aio.turns.list(limit=2 * DUE)}) == DUE
        assert await rt.aio.schedules.list() == []
    assert found["round_trips"] < DUE


async def test_a_turn_on_sqlite_takes_five_statements_to_begin_and_six_to_end(wire: WireCounts, tmp_path: Path) -> None:
    async with Deploy("local", tmp_path)(agent()) as rt:
        await turns(rt, ["s"], WARM_UP)
        found = await cost(rt, wire, ["s"], 10)
    # Where it begins, the time of its session is as it was.
    assert (found["commits"], found["statements"]) == (20, 110)


async def test_of_two_shards_only_turns_that_change_what_they_share_take_more_round_trips(
    server: str, wire: WireCounts, tmp_path: Path
) -> None:
    two = Settings(session_shards=2)
    async with Deploy("local", tmp_path)(agent(), session_store=own_tables(server), settings=two) as rt:
        await turns(rt, ["s0", "s1"], WARM_UP)
        assert await least_cost(rt, wire, ["s0"]) == {"commits": 20, "round_trips": 40, "statements": 110}
        await turns(rt, ["s0", "s1"], WARM_UP, {"user:seen": 1, "app:seen": 1})
        found = await least_cost(rt, wire, ["s0"], {"user:seen": 2, "app:seen": 2})
    # The size of a state is looked at in the commit that changes it: in half of them, once for each state.
    assert found == {"commits": 20, "round_trips": 60, "statements": 150}
