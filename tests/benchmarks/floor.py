"""The raw Ray floor: the actor calls of one turn, with nothing in them.

Three plain actors, which know nothing of ours, pass bytes on that are as many as those of our messages, in the order of a turn:

    driver -> runner.start -> session.open -> (reply) -> agent.invoke -> session.append -> (replies) -> session.close
    driver -> session.poll, which returns once for the event and once for the end

With a folder, every one of open, append and close waits for a commit to SQLite, which those that wait at the same time share.
This is the one place outside of `runtime/cluster` that calls `.remote(`: it is what we are compared with.
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

import msgspec
import ray

from actors import Content, RunConfig
from actors.messages import protocol as p
from actors.messages.event import new_invocation_id
from actors.messages.session import SessionKey
from actors.messages.wire import encode
from tests.benchmarks.stage import APP, ROOT, SAID, conversation

_NEWS = struct.Struct(">Q?")
"""Begins every message: the number of the turn, and whether that has ended."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of each message and its reply in one turn of an agent that answers at once."""

    start: int
    started: int
    open: int
    opened: int
    invoke: int
    outcome: int
    append: int
    appended: int
    close: int
    done: int
    poll: int
    news: int


def sizes() -> Sizes:
    """What our own messages measure."""
    key, invocation_id = SessionKey(APP, "user", "session-1"), new_invocation_id()
    turn = p.TurnRef(key, invocation_id, 1)
    event, generation = encode(conversation(1)[0]), "1750000000.123456/0"
    message = Content.of_text(SAID)
    news = p.TurnNews(key=key, invocation_id=invocation_id, events=[p.StoredEvent(100, event)])
    said = p.StoredEvent(99, event)
    invoke = p.Invoke(turn=turn, agent=ROOT, user_event=said, fresh=True, generation=generation, state=b"\x80", llm_calls=500)
    messages: dict[str, p.Message] = {
        "start": p.StartTurn(key=key, invocation_id=invocation_id, content=message, config=RunConfig(), subscriber="d" * 39),
        "started": p.TurnStarted(invocation_id=invocation_id, agent=ROOT),
        "open": p.OpenTurn(key=key, invocation_id=invocation_id, event=event, auto_create=True, subscriber="d" * 39),
        "opened": p.TurnOpened(epoch=1, seq=99, generation=generation, authors=(ROOT,), state=b"\x80"),
        "invoke": invoke,
        "outcome": p.Finished(agent=ROOT, llm_calls=1),
        "append": p.Append(turn=turn, events=[event]),
        "appended": p.Appended(first_seq=100),
        "close": p.CloseTurn(turn=turn, agent=ROOT, outcome=p.Finished(agent=ROOT, llm_calls=1)),
        "done": p.Done(),
        "poll": p.Poll(subscriber="d" * 39, ack=1_000),
        "news": p.News(number=1_000, turns=[news]),
    }
    return Sizes(**{name: len(encode(made)) for name, made in messages.items()})


def _message(turn: int, size: int, *, has_ended: bool = False) -> bytes:
    return _NEWS.pack(turn, has_ended).ljust(size, b"x")


def _turn(raw: bytes) -> int:
    return int(_NEWS.unpack_from(raw)[0])


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
    def __init__(self, sizes: Sizes, path: str | None) -> None:
        self._sizes = sizes
        self._store = _Store(path) if path is not None else None
        self._news: list[bytes] = []
        self._filled = asyncio.Event()

    async def open(self, raw: bytes) -> bytes:
        await self._write(raw)
        return bytes(self._sizes.opened)

    async def append(self, raw: bytes) -> bytes:
        await self._write(raw)
        self._tell(raw, has_ended=False)
        return bytes(self._sizes.appended)

    async def close(self, raw: bytes) -> bytes:
        self._tell(raw, has_ended=True)
        await self._write(raw)
        return bytes(self._sizes.done)

    async def poll(self, _: bytes) -> bytes:
        await self._filled.wait()
        self._filled.clear()
        news, self._news = self._news, []
        return b"".join(news)

    async def _write(self, raw: bytes) -> None:
        if self._store is not None:
            await self._store.write(raw)

    def _tell(self, raw: bytes, *, has_ended: bool) -> None:
        self._news.append(_message(_turn(raw), self._sizes.news, has_ended=has_ended))
        self._filled.set()


class _Agent:
    def __init__(self, sizes: Sizes, session: Any) -> None:
        self._sizes = sizes
        self._session = session

    async def invoke(self, raw: bytes) -> bytes:
        await self._session.append.remote(_message(_turn(raw), self._sizes.append))
        return bytes(self._sizes.outcome)


class _Runner:
    def __init__(self, sizes: Sizes, session: Any, agent: Any) -> None:
        self._sizes = sizes
        self._session = session
        self._agent = agent
        self._turns: set[asyncio.Task[None]] = set()

    async def start(self, raw: bytes) -> bytes:
        await self._session.open.remote(_message(_turn(raw), self._sizes.open))
        task = asyncio.create_task(self._run(_turn(raw)))
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)
        return bytes(self._sizes.started)

    async def _run(self, turn: int) -> None:
        await self._agent.invoke.remote(_message(turn, self._sizes.invoke))
        await self._session.close.remote(_message(turn, self._sizes.close))


class Floor:
    """Runs empty turns. A context manager; its coroutines may be used on one event loop, and its `turn_sync` on none.

    Args:
        folder: where each turn's three commits go; None for turns without.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = str(folder / "floor.db") if folder is not None else None
        self._sizes = sizes()
        self._numbers = count()
        self._ended: dict[int, asyncio.Future[None]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Floor:
        self._session = _start(_Session, self._sizes, self._path)
        self._agent = _start(_Agent, self._sizes, self._session)
        self._runner = _start(_Runner, self._sizes, self._session, self._agent)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._loop is not None:
            self._loop.close()
        for actor in (self._runner, self._agent, self._session):
            ray.kill(actor)

    async def turn(self, _: int = 0) -> None:
        """One turn, until the driver has been told of its end."""
        number = next(self._numbers)
        ended = self._ended[number] = asyncio.get_running_loop().create_future()
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        await self._runner.start.remote(_message(number, self._sizes.start))
        await ended

    def turn_sync(self) -> None:
        """The same for a caller without an event loop."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self.turn())

    async def _poll(self) -> None:
        while self._ended:
            raw: bytes = await self._session.poll.remote(_message(0, self._sizes.poll))
            for start in range(0, len(raw), self._sizes.news):
                number, has_ended = _NEWS.unpack_from(raw, start)
                if has_ended:
                    self._ended.pop(number).set_result(None)


def _start(kind: type[Any], *args: Any) -> Any:
    options = {"num_cpus": 0, "max_concurrency": 10_000, "enable_task_events": False}
    return ray.remote(kind).options(**options).remote(*args)
