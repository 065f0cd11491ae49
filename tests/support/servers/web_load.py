"""Many streams of one server at once, and turns meanwhile: how long events are on their way."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

FRAME = re.compile(rb'id: (\d+)\nevent: event\ndata: [^\n]*?"timestamp":([\d.]+)')
STATUS = re.compile(rb"HTTP/1.1 (\d+)")
RETRY_AFTER = re.compile(rb"retry-after: (\d+)", re.IGNORECASE)
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def follow_request(path: str) -> bytes:
    """The bytes of a request for a stream."""
    return request("GET", path, Accept="text/event-stream")


def turn_request(path: str, message: str) -> bytes:
    """The bytes of a request that runs a turn to its end."""
    return request("POST", path, msgspec.json.encode({"message": message}))


def address_of(url: str) -> tuple[str, int]:
    """Host and port of a URL."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


class Follower(asyncio.Protocol):
    """The client of one stream.

    Args:
        request: what it asks.
        ways_ms: gets how long each stored event was on its way, from when its agent made it: the commit is part of it.

    Attributes:
        seqs: of the stored events that have come.
    """

    def __init__(self, request: bytes, ways_ms: list[float]) -> None:
        self.seqs: list[int] = []
        self._request = request
        self._ways_ms = ways_ms
        self._rest = b""
        self._news = asyncio.Event()
        self._transport: asyncio.BaseTransport | None = None
        self.begun: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now_s = time.time()
        if not self.begun.done():
            found = STATUS.match(data)
            assert found is not None
            self.begun.set_result(int(found[1]))
        whole, _, self._rest = (self._rest + data).rpartition(b"\n\n")
        for frame in FRAME.finditer(whole):
            self.seqs.append(int(frame[1]))
            self._ways_ms.append((now_s - float(frame[2])) * 1_000)
        self._news.set()

    async def wait_for(self, count: int) -> None:
        """Wait until so many stored events have come."""
        while len(self.seqs) < count:
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


@asynccontextmanager
async def following(url: str, paths: Sequence[str], ways_ms: list[float]) -> AsyncIterator[list[Follower]]:
    """Follow streams while the block lasts."""
    loop = asyncio.get_running_loop()
    followers: list[Follower] = []
    try:
        for path in paths:
            follower = Follower(follow_request(path), ways_ms)
            await loop.create_connection(lambda follower=follower: follower, *address_of(url))  # type: ignore[misc]
            followers.append(follower)
        assert set(await asyncio.gather(*(each.begun for each in followers))) <= {200}
        yield followers
    finally:
        for follower in followers:
            follower.close()


class Caller:
    """A connection for one request after the other, so bare that its own time hardly counts."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, url: str) -> Caller:
        """Connect."""
        return cls(*await asyncio.open_connection(*address_of(url)))

    @property
    def is_closed(self) -> bool:
        """True when the server has closed the connection, as it does after some idle seconds."""
        return self._reader.at_eof()

    async def ask(self, request: bytes) -> bytes:
        """The body of the response, which has a Content-Length and is a success."""
        status, head, body = await self.exchange(request)
        assert status // 100 == 2, (head, body)
        return body

    async def exchange(self, request: bytes) -> tuple[int, bytes, bytes]:
        """Status, head and body of the response, which has a Content-Length."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, length = STATUS.match(head), LENGTH.search(head)
        assert status is not None, head
        assert length is not None, head
        return int(status[1]), head, await self._reader.readexactly(int(length[1]))

    def close(self) -> None:
        self._writer.close()


async def run_turns(url: str, paths: Sequence[str], *, per_s: float, seconds: float) -> list[float]:
    """Begin turns at an even rate, one path after the other, whether or not earlier ones have ended.

    Args:
        paths: those of `POST …/turns`.

    Returns:
        How long each took, in milliseconds, from when it was due. One that is refused is asked for again when the server says.
    """
    idle: list[Caller] = []
    took_ms: list[float] = []

    async def run(path: str, due_s: float) -> None:
        while idle and idle[-1].is_closed:
            idle.pop().close()
        caller = idle.pop() if idle else await Caller.to(url)
        while True:
            status, head, body = await caller.exchange(turn_request(path, "go on"))
            if status // 100 == 2:
                break
            # The server has too much to do, as a machine that others use may have: it says when to come again.
            again = RETRY_AFTER.search(head)
            assert again is not None, (head, body)
            caller.close()
            await asyncio.sleep(float(again[1]))
            caller = await Caller.to(url)
        took_ms.append((time.perf_counter() - due_s) * 1_000)
        idle.append(caller)

    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(per_s * seconds)):
            due_s = began_s + number / per_s
            await asyncio.sleep(due_s - time.perf_counter())
            group.create_task(run(paths[number % len(paths)], due_s))
    for caller in idle:
        caller.close()
    return took_ms
