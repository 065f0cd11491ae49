"""A stream, as its ASGI server sees it: it asks for a frame when there is room, keeps alive, and ends as it should."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.types import Message

from runtime.frontends.web.problems import TooManyStreamsError
from runtime.frontends.web.streams import BYE, KEEP_ALIVE, RETRY, EventStream, StreamSlots


class Client:
    """The other end of a connection: it takes what is sent while it has room."""

    def __init__(self, room: int = 1_000) -> None:
        self.bodies: list[bytes] = []
        self.is_complete = False
        self._room = asyncio.Semaphore(room)
        self._left = asyncio.Event()
        self._sent = asyncio.Event()
        self.is_full = asyncio.Event()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            if self._room.locked():
                self.is_full.set()
            await self._room.acquire()
            self.bodies.append(message["body"])
            self.is_complete = not message["more_body"]
            self._sent.set()

    async def until(self, body: bytes, times: int) -> None:
        """Wait until a body was sent so often."""
        while self.bodies.count(body) < times:
            self._sent.clear()
            await self._sent.wait()

    async def receive(self) -> Message:
        await self._left.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        self._left.set()


class Source:
    """Frames without an end, or so many, which notes how many were asked for and that it was closed."""

    def __init__(self, most: int = 10**9) -> None:
        self.given = 0
        self.is_closed = False
        self.waits = asyncio.Event()
        self.most = most

    async def frames(self) -> AsyncIterator[bytes]:
        try:
            while self.given < self.most:
                self.given += 1
                yield b"data: %d\n\n" % self.given
            self.waits.set()
        finally:
            self.is_closed = True

    async def silence(self) -> AsyncIterator[bytes]:
        try:
            self.waits.set()
            await asyncio.Event().wait()
            yield b""
        finally:
            self.is_closed = True


def stream(frames: AsyncIterator[bytes], slots: StreamSlots, client: Client, user_id: str | None = "ada") -> asyncio.Task[None]:
    with slots.take(user_id) as slot:
        response = EventStream(frames, slots, slot, keep_alive_s=0.001)
    return asyncio.create_task(response({"type": "http"}, client.receive, client.send))


async def test_a_stream_that_ends_is_complete() -> None:
    source, slots, client = Source(most=2), StreamSlots(1, 1), Client()
    await stream(source.frames(), slots, client)
    assert client.bodies == [RETRY, b"data: 1\n\n", b"data: 2\n\n", b""]
    assert (client.is_complete, slots.open, source.is_closed) == (True, 0, True)


async def test_a_client_that_reads_nothing_is_asked_no_frame_for() -> None:
    source, slots, client = Source(), StreamSlots(1, 1), Client(room=5)
    running = stream(source.frames(), slots, client)
    await client.is_full.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    # Four frames and the one that waits for room; the first body says when to connect again.
    assert source.given == 5
    client.leave()
    await running
    assert (client.is_complete, slots.open, source.is_closed) == (False, 0, True)


async def test_a_silent_stream_says_that_it_lives_until_the_client_leaves() -> None:
    source, slots, client = Source(), StreamSlots(1, 1), Client()
    running = stream(source.silence(), slots, client)
    await client.until(KEEP_ALIVE, 3)
    client.leave()
    await running
    assert (slots.open, source.is_closed) == (0, True)


async def test_a_server_that_stops_says_so_to_streams_that_are_open_and_to_new_ones() -> None:
    slots, clients, sources = StreamSlots(9, 9), [Client() for _ in range(3)], [Source() for _ in range(3)]
    running = [stream(source.silence(), slots, client) for source, client in zip(sources, clients, strict=True)]
    for source in sources:
        await source.waits.wait()
    slots.close()
    await asyncio.gather(*running)
    late = Client()
    await stream(Source().silence(), slots, late)
    for client in (*clients, late):
        assert (client.bodies[-1], client.is_complete) == (BYE, True)
    assert all(source.is_closed for source in sources)


async def test_an_error_of_the_source_cuts_the_stream() -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        raise KeyError("x")

    slots, client = StreamSlots(1, 1), Client()
    with pytest.raises(KeyError):
        await stream(failing(), slots, client)
    assert (client.is_complete, slots.open) == (False, 0)


async def test_streams_are_counted_by_user_and_in_all() -> None:
    slots, client, source = StreamSlots(1, 2), Client(), Source()
    first = stream(source.silence(), slots, client)
    await source.waits.wait()
    with pytest.raises(TooManyStreamsError, match="user 'ada' has 1"):
        stream(Source().silence(), slots, Client())
    with slots.take(None), pytest.raises(TooManyStreamsError, match="this server has 2"):
        stream(Source().silence(), slots, Client(), "bob")
    client.leave()
    await first
    assert slots.open == 0


def test_a_place_is_free_after_its_block_unless_it_was_handed_on() -> None:
    slots = StreamSlots(9, 9)
    with slots.take("ada"):
        assert slots.open == 1
    assert slots.open == 0
    with slots.take("ada") as slot:
        slot.keep()
    assert slots.open == 1
    slot.free()
    slot.free()
    assert slots.open == 0
