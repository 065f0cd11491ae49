"""The two floors: the messages of one turn, with nothing in them, as calls of Ray's or over bare connections.

Three plain Ray actors, which know nothing of ours, pass bytes on that are as many as those of our messages, in the order of a
turn:

    driver -> runner.start -> session.open -> (reply) -> agent.invoke -> session.append -> (replies)
    driver -> session.poll, which returns when the turn has ended

`Floor` refuses to stand for a turn that makes other calls or commits than these. With a folder, open and append each wait for a
commit to SQLite, which those that wait at the same time share. This is the one place outside of `runtime/cluster` that calls
`.remote(`: it is what we are compared with.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import struct
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Literal

import ray
import uvloop

from tests.benchmarks.bare import BareClient, BareServer
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
        for command in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE IF NOT EXISTS log (raw BLOB)"):
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


Wire = Literal["bare connections", "bare Ray calls"]
"""How the messages of a floor travel."""

Call = Callable[[bytes], Awaitable[bytes]]

_OPEN, _APPEND, _POLL = range(3)
"""Methods of a Session over bare connections. The others have one method each."""


class _Actor:
    def pid(self) -> int:
        return os.getpid()


class _Session(_Actor):
    def __init__(self, turn: RecordedTurn, path: str | None) -> None:
        self._replies = turn.replies
        self._store = _Store(path) if path is not None else None
        self._news: list[bytes] = []
        self._filled = asyncio.Event()

    async def listen(self, path: str) -> None:
        self._server = BareServer(path, self.open, self.append, self.poll)
        await self._server.start()

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


class _Agent(_Actor):
    def __init__(self, turn: RecordedTurn, session: Any) -> None:
        self._recorded = turn
        self._append: Call = session.append.remote

    async def listen(self, path: str, session: str) -> None:
        client = BareClient(session)
        await client.connect()
        self._append = lambda raw: client.call(_APPEND, raw)
        self._server = BareServer(path, self.invoke)
        await self._server.start()

    async def invoke(self, raw: bytes) -> bytes:
        await self._append(_message(_turn(raw), self._recorded.requests["Append"]))
        return bytes(self._recorded.replies["Invoke"])


class _Runner(_Actor):
    def __init__(self, turn: RecordedTurn, session: Any, agent: Any) -> None:
        self._recorded = turn
        self._open: Call = session.open.remote
        self._invoke: Call = agent.invoke.remote
        self._turns: set[asyncio.Task[None]] = set()

    async def listen(self, path: str, session: str, agent: str) -> None:
        to_session, to_agent = BareClient(session), BareClient(agent)
        await asyncio.gather(to_session.connect(), to_agent.connect())
        self._open = lambda raw: to_session.call(_OPEN, raw)
        self._invoke = lambda raw: to_agent.call(0, raw)
        self._server = BareServer(path, self.start)
        await self._server.start()

    async def start(self, raw: bytes) -> bytes:
        await self._open(_message(_turn(raw), self._recorded.requests["OpenTurn"]))
        task = asyncio.create_task(self._run(_turn(raw)))
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)
        await asyncio.sleep(0)  # the agent first, as in ours
        return bytes(self._recorded.replies["StartTurn"])

    async def _run(self, turn: int) -> None:
        await self._invoke(_message(turn, self._recorded.requests["Invoke"]))


class Floor:
    """Runs empty turns. A context manager; `turn` and `leave` are for callers on an event loop, `turn_sync` for those
    without one.

    Args:
        folder: where each turn's commits go; None for turns without.
        wire: how messages travel.

    Raises:
        StaleFloorError: on entering, when our own turns are not what the floor makes.
    """

    def __init__(self, folder: Path | None = None, wire: Wire = "bare connections") -> None:
        self._path = str(folder / f"floor {wire}.db") if folder is not None else None
        self._wire = wire
        self._clients: tuple[BareClient, BareClient] | None = None
        self._connecting = asyncio.Lock()
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
        if self._wire != "bare Ray calls":
            self._sockets = TemporaryDirectory(prefix="rg")
            session, agent, runner = (f"{self._sockets.name}/{name}" for name in ("session", "agent", "runner"))
            ray.get(self._session.listen.remote(session))
            ray.get(self._agent.listen.remote(agent, session))
            ray.get(self._runner.listen.remote(runner, session, agent))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._loop is not None:
            self._loop.run_until_complete(self.leave())
            self._loop.close()
        for actor in (self._runner, self._agent, self._session):
            ray.kill(actor)
        if self._wire != "bare Ray calls":
            self._sockets.cleanup()

    def pids(self) -> list[int]:
        """The processes of its three actors."""
        return list(ray.get([actor.pid.remote() for actor in (self._session, self._agent, self._runner)]))

    async def leave(self) -> None:
        """The last call on an event loop."""
        if self._poller is not None:
            self._poller.cancel()
        for client in self._clients or ():
            client.close()
        self._clients = None
        await asyncio.sleep(0)

    async def turn(self, _: int = 0) -> None:
        """One turn, until the driver has got its end."""
        number = next(self._numbers)
        ended = self._ended[number] = asyncio.get_running_loop().create_future()
        start, poll = await self._calls()
        started = start(_message(number, self._recorded.requests["StartTurn"]))
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll(poll))
        await ended
        await started

    def turn_sync(self) -> None:
        """The same for a caller without an event loop."""
        if self._loop is None:
            self._loop = uvloop.new_event_loop()
        self._loop.run_until_complete(self.turn())

    async def _calls(self) -> tuple[Call, Call]:
        """`start` of the Runner and `poll` of the Session."""
        if self._wire == "bare Ray calls":
            return self._runner.start.remote, self._session.poll.remote
        async with self._connecting:
            if self._clients is None:
                session, runner = (BareClient(f"{self._sockets.name}/{name}") for name in ("session", "runner"))
                await asyncio.gather(session.connect(), runner.connect())
                self._clients = runner, session
        runner, session = self._clients
        return lambda raw: runner.call(0, raw), lambda raw: session.call(_POLL, raw)

    async def _poll(self, poll: Call) -> None:
        while self._ended:
            raw = await poll(_message(0, self._recorded.requests["Poll"]))
            for start in range(0, len(raw), self._recorded.replies["Poll"]):
                self._ended.pop(_turn(raw[start:])).set_result(None)


def _start(kind: type[Any], *args: Any) -> Any:
    options = {"num_cpus": 0, "max_concurrency": 10_000, "enable_task_events": False}
    return ray.remote(kind).options(**options).remote(*args)
