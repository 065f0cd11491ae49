"""The session store of a simulation: the real one on SQLite in memory, called on the loop, and away when it is told to be."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any
from unittest import mock

from sqlalchemy import delete

from actors.errors import StoreConflictError, StoreError, StoreUnavailableError
from actors.interfaces.stores import AddEvent, PutTurn, RemoveSession, TurnRow, Write
from actors.messages.event import decode_event
from actors.messages.session import TurnKey
from actors.session.store import store_thread
from actors.session.store.store_thread import Job
from runtime.stores.sql import schema
from runtime.stores.sql.sessions import SqlSessionStore
from runtime.stores.sql.writers import WriterClaim
from tests.simulation.faults import COMMIT_S, Phase
from tests.simulation.virtual_loop import PROCESS, SimProcess, VirtualLoop, outside

STEPS = ("take_seat", "place_users", "begin_arrival", "stage", "leave", "admit", "drop_arrival")
"""Methods beside `commit` that write."""


class Disk:
    """The database that all Session actors of a simulation use, one after the other.

    Args:
        number: tells it from others of one simulation.

    Attributes:
        away_until_s: calls fail until then.
        unsure_until_s: commits until then are done, but fail.
        full_until_s: commits until then fail, and reading works.
        fails_until_s: until then all commits fail with an error that no caller waits for.
        conflicts: so many of the next commits with events are refused.
        breaks_at: the next commit fails in the midst of its so manyth statement; 0: it does not.
        on_commit: called with the process that commits and the kinds of what it writes, before and after.
        events: the positions of all events that were ever committed, by their ids.
        turns: the newest records of the turns of sessions that are there.
    """

    def __init__(self, loop: VirtualLoop, number: int = 0) -> None:
        self.store = _database(number)
        USED.add(number)
        self._loop = loop
        self.away_until_s = 0.0
        self.unsure_until_s = 0.0
        self.full_until_s = 0.0
        self.fails_until_s = 0.0
        self.conflicts = 0
        self.breaks_at = 0
        self.on_commit: Callable[[SimProcess, Phase, Sequence[str]], None] = lambda process, phase, kinds: None
        self.events: dict[str, int] = {}
        self.turns: dict[TurnKey, TurnRow] = {}

    def check(self) -> None:
        """Raise StoreUnavailableError while the store is away."""
        if self._loop.time() < self.away_until_s:
            raise StoreUnavailableError("the simulated store", "it is away")

    def commit(self, writes: Sequence[Write], claim: WriterClaim | None, process: SimProcess) -> None:
        """Do writes of a process, the holder of a claim. It may be lost before they are done, or before it knows of that."""
        kinds = list(dict.fromkeys(map(self._kind, writes)))
        self.on_commit(process, "sent", kinds)
        with self._breaking():
            # One that is refused cannot break, and no later one breaks in its place.
            self._refuse(writes, process)
            self.store._claim = claim
            self.store.commit(writes)
        for write in writes:
            if isinstance(write, AddEvent):
                self.events[write.row.head.id] = write.row.seq
                self._loop.history.store((write.key.user, write.key.session), decode_event(write.row.raw, write.row.seq))
            elif isinstance(write, PutTurn):
                self.turns[write.key, write.row.invocation_id] = write.row
            elif isinstance(write, RemoveSession):
                self.turns = {turn: row for turn, row in self.turns.items() if turn[0] != write.key}
                self._loop.history.remove((write.key.user, write.key.session))
        self.on_commit(process, "handled", kinds)
        if self._loop.time() < self.unsure_until_s:
            raise StoreUnavailableError("the simulated store", "the connection broke")

    def _kind(self, write: Write) -> str:
        """What is written; of a turn also what it was before, and what it is then."""
        if not isinstance(write, PutTurn):
            return type(write).__name__
        before = self.turns.get((write.key, write.row.invocation_id))
        return f"PutTurn {before.status if before is not None else ''}>{write.row.status}"

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """In the block the database fails in the midst of a statement, if it is to."""
        breaks_at, self.breaks_at = self.breaks_at, 0
        if not breaks_at:
            yield
            return
        driver: Any = self.store._database._connected().connection.dbapi_connection
        statements: list[str] = []
        driver.set_trace_callback(statements.append)
        ends = ("COMMIT", "ROLLBACK")
        driver.set_progress_handler(lambda: len(statements) > breaks_at and statements[-1] not in ends, 1)
        try:
            yield
        finally:
            driver.set_trace_callback(None)
            driver.set_progress_handler(None, 1)

    def _refuse(self, writes: Sequence[Write], process: SimProcess) -> None:
        self.check()
        if process.is_dead or self._loop.time() < self.full_until_s:
            raise StoreUnavailableError("the simulated store", "it is full")
        if self._loop.time() < self.fails_until_s:
            raise StoreError("the simulated store: it is broken")
        if self.conflicts and any(isinstance(write, AddEvent) for write in writes):
            self.conflicts -= 1
            raise StoreConflictError(writes[0].key.session, "something else has written it")

    def step(self, name: str, args: Sequence[Any], claim: WriterClaim | None, process: SimProcess) -> None:
        """Do a step of a user's move, as `commit` does writes."""
        self.on_commit(process, "sent", [name])
        self._refuse((), process)
        self.store._claim = claim
        getattr(self.store, name)(*args)
        self.on_commit(process, "handled", [name])
        if self._loop.time() < self.unsure_until_s:
            raise StoreUnavailableError("the simulated store", "the connection broke")


@cache
def _database(number: int) -> SqlSessionStore:
    """One for all simulations of a process, since a new one takes longer than a simulation."""
    store = SqlSessionStore("sqlite://")
    store.open()
    return store


USED: set[int] = set()
"""The databases that the simulation has used which runs now."""


def clear_used() -> None:
    """Empty the databases, for the next simulation."""
    while USED:
        store = _database(USED.pop())
        store._claim = None
        try:
            store._written(_empty)
        except StoreError:
            # A run that was cut off in the midst of a transaction has left it so.
            _database.cache_clear()


def _empty(connection: Any) -> None:
    for table in reversed(schema.metadata.sorted_tables):
        if table is not schema.schema_version:
            connection.execute(delete(table))
    # Sessions get the same numbers again.
    connection.exec_driver_sql("DELETE FROM sqlite_sequence")


class DiskStore:
    """Implements `SessionStore` for one Session actor: the disk stays when it is closed, and a claim lasts without renewal."""

    renew_s = None

    def __init__(self, disk: Disk, process: SimProcess) -> None:
        self._disk = disk
        self._process = process
        self._claim: WriterClaim | None = None

    def open(self) -> None:
        self._disk.check()

    def close(self) -> None:
        """Nothing: the disk stays."""

    def commit(self, writes: Sequence[Write]) -> None:
        self._disk.commit(writes, self._claim, self._process)

    def claim(self, writer: str) -> None:
        self._disk.check()
        self._disk.store.claim(writer)
        self._claim = self._disk.store._claim

    def give_up_claim(self) -> None:
        """Nothing: another one may come."""

    def __getattr__(self, name: str) -> Any:
        """All other methods: those of STEPS write, the others read."""
        if name in STEPS:
            return lambda *args: self._disk.step(name, args, self._claim, self._process)

        def read(*args: Any, **more: Any) -> Any:
            self._disk.check()
            return getattr(self._disk.store, name)(*args, **more)

        return read

    def __str__(self) -> str:
        return "the simulated store"


class StoreCalls:
    """Stands in for the store's thread: makes the calls on the loop, in order, each after a moment.

    Args:
        chance: how long each takes, and whether one under way is still made when the caller's process is lost.

    Attributes:
        most_s: the longest time that one takes.
    """

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.most_s = COMMIT_S
        self._loop = loop
        self._chance = chance
        self._waiting: deque[tuple[SimProcess | None, Job]] = deque()
        self._free_s = 0.0
        self._hangs_until_s = 0.0
        self._hung: Job | None = None
        self._is_making = False

    def begin_job(self, function: Callable[..., Any], *args: Any) -> Job:
        job = Job(function, args)
        self._waiting.append((PROCESS.get(), job))
        self._free_s = max(self._free_s, self._loop.time()) + self._chance.uniform(0, self.most_s)
        outside(self._loop.call_at, self._free_s, self._call_next)
        return job

    def lose(self, process: SimProcess) -> None:
        """The caller's process is lost: what it was about to call is made yet, or not."""
        made = self._chance.randrange(3)
        waiting, self._waiting = self._waiting, deque()
        for of, job in waiting:
            if of is not process:
                self._waiting.append((of, job))
                continue
            if made:
                made -= 1
                make = partial(_make_late, job) if job is self._hung else job.make
                # A process may be lost by what happens in the midst of a call: the next one comes after it.
                outside(self._loop.call_soon, make) if self._is_making else outside(make)
            if job is self._hung:
                self._hung = None

    def hang(self, until_s: float) -> None:
        """The call under way takes until then, also if its caller gives it up before; others wait."""
        self._hangs_until_s = until_s
        if self._waiting and self._hung is None and self._waiting[0][1].cancel():
            self._hung = self._waiting[0][1]

    def _call_next(self) -> None:
        if self._loop.time() < self._hangs_until_s:
            outside(self._loop.call_at, self._hangs_until_s, self._call_next)
        elif self._waiting:
            _, job = self._waiting.popleft()
            self._is_making = True
            try:
                if job is self._hung:
                    self._hung = None
                    _make_late(job)
                else:
                    job.make()
            finally:
                self._is_making = False


@contextmanager
def called_on_the_loop(loop: VirtualLoop, seed: int) -> Iterator[StoreCalls]:
    """Inside the block stores have no thread."""
    calls = StoreCalls(loop, random.Random(f"store {seed}"))
    with mock.patch.object(store_thread, "Worker", return_value=calls):
        yield calls


def _make_late(job: Job) -> None:
    """Make a call that has begun long ago; its caller has its answer, unless it has given it up."""
    late = Job(job._function, job._args)
    late.answer = job.answer
    late.make()
    job.has_ended = True
