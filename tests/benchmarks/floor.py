"""The raw Ray floor: the actor calls of one turn, with nothing in them.

Three plain actors, which know nothing of ours, pass bytes on that are as many as those of our messages, in the order of a turn:

    driver -> runner.start -> session.open -> (reply) -> agent.invoke -> session.append -> (replies)
    driver -> session.poll, which returns when the turn has ended

`Floor` refuses to stand for a turn that makes other calls or commits than these. With a folder, open and append each wait for a
commit to SQLite, which those that wait at the same time share. This is the one place outside of `runtime/cluster` that calls
`.remote(`: it is what we are compared with.
"""

from __future__ import annotations

import asyncio
import sqlite3
import struct
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import ray

from tests.benchmarks.recorded import RecordedTurn, record

CALLS = {"StartTurn": 1.0, "OpenTurn": 1.0, "Invoke": 1.0, "Append": 1.0, "Poll": 1.0}
COMMITS = 2.0

_NUMBER = struct.Struct(">Q")
"""Begins every message: the number of the turn."""


class StaleFloorError(Exception):
    """Our turns no longer make the calls of the floor; a ratio against it would mean nothing."""

    def __init__(self, turn: RecordedTurn) -> None:
        super().__init__(f"a turn makes calls {turn.calls} and {turn.commits} commits, the floor {CALLS} and {COMMITS}")


def _message(turn: int, size: int) -> bytes:
    return _NUMBER.pack(turn).ljust(size, b"x")


def _turn(raw: bytes) -> int:
    return int(_NUMBER.unpack_from(raw)[0])


class _Store:
    """One table, written from one thread; what waits goes into one transaction."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for command in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE log (raw BLOB)"):
            self._connection.execute(command)
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def write(self, raw: bytes) -> None:
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((raw, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        await done

    async def _write_all(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            await asyncio.get_running_loop().run_in_executor(self._thread, self._commit, [(raw,) for raw, _ in group])
            for _, done in group:
                done.set_result(None)

    def _commit(self, rows: list[tuple[bytes]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO log VALUES (?)", rows)
        self._connection.execute("COMMIT")


class _Session:
    def __init__(self, turn: RecordedTurn, path: str | None) -> None:
        self._replies = turn.replies
        self._store = _Store(path) if path is not None else None
        self._news: list[bytes] = []
        self._filled = asyncio.Event()

    async def open(self, raw: bytes) -> bytes:
        await self._write(raw)
        return bytes(self._replies["OpenTurn"])

    async def append(self, raw: bytes) -> bytes:
        await self._write(raw)
        self._news.append(_message(_turn(raw), self._replies["Poll"]))
        self._filled.set()
        return bytes(self._replies["Append"])

    async def poll(self, _: bytes) -> bytes:
        await self._filled.wait()
        self._filled.clear()
        news, self._news = self._news, []
        return b"".join(news)

    async def _write(self, raw: bytes) -> None:
        if self._store is not None:
            await self._store.write(raw)


class _Agent:
    def __init__(self, turn: RecordedTurn, session: Any) -> None:
        self._recorded = turn
        self._session = session

    async def invoke(self, raw: bytes) -> bytes:
        await self._session.append.remote(_message(_turn(raw), self._recorded.requests["Append"]))
        return bytes(self._recorded.replies["Invoke"])


class _Runner:
    def __init__(self, turn: RecordedTurn, session: Any, agent: Any) -> None:
        self._recorded = turn
        self._session = session
        self._agent = agent
        self._turns: set[asyncio.Task[None]] = set()

    async def start(self, raw: bytes) -> bytes:
        await self._session.open.remote(_message(_turn(raw), self._recorded.requests["OpenTurn"]))
        task = asyncio.create_task(self._run(_turn(raw)))
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)
        await asyncio.sleep(0)  # the agent first, as in ours
        return bytes(self._recorded.replies["StartTurn"])

    async def _run(self, turn: int) -> None:
        await self._agent.invoke.remote(_message(turn, self._recorded.requests["Invoke"]))


class Floor:
    """Runs empty turns. A context manager; `turn` is for callers on an event loop, `turn_sync` for those without one.

    Args:
        folder: where each turn's commits go; None for turns without.

    Raises:
        StaleFloorError: on entering, when our own turns are not what the floor makes.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = str(folder / "floor.db") if folder is not None else None
        self._numbers = count()
        self._ended: dict[int, asyncio.Future[None]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Floor:
        self._recorded = record()
        if self._recorded.calls != CALLS or self._recorded.commits != COMMITS:
            raise StaleFloorError(self._recorded)
        self._session = _start(_Session, self._recorded, self._path)
        self._agent = _start(_Agent, self._recorded, self._session)
        self._runner = _start(_Runner, self._recorded, self._session, self._agent)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._loop is not None:
            self._loop.close()
        for actor in (self._runner, self._agent, self._session):
            ray.kill(actor)

    async def turn(self, _: int = 0) -> None:
        """One turn, until the driver has got its end."""
        number = next(self._numbers)
        ended = self._ended[number] = asyncio.get_running_loop().create_future()
        started = self._runner.start.remote(_message(number, self._recorded.requests["StartTurn"]))
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        await ended
        await started

    def turn_sync(self) -> None:
        """The same for a caller without an event loop."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self.turn())

    async def _poll(self) -> None:
        while self._ended:
            raw: bytes = await self._session.poll.remote(_message(0, self._recorded.requests["Poll"]))
            for start in range(0, len(raw), self._recorded.replies["Poll"]):
                self._ended.pop(_turn(raw[start:])).set_result(None)


def _start(kind: type[Any], *args: Any) -> Any:
    options = {"num_cpus": 0, "max_concurrency": 10_000, "enable_task_events": False}
    return ray.remote(kind).options(**options).remote(*args)
