"""What each side keeps in memory when the other one does not read, or reads and says nothing."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from runtime.transport.endpoint import Endpoint
from runtime.transport.io.connection import HIGH_WATER, LONE_PASSES, Connection, Writer
from runtime.transport.protocol.frames import GATHERED_BYTES, HEADER, LONG_AT_ONCE, MAX_PAYLOAD, FrameQueue, Kind, wanted_frames
from runtime.transport.protocol.handshake import CHALLENGE_BYTES, NONCE_BYTES, VERSION, WELCOME_BYTES, Claim, ClientHandshake
from tests.support.fixtures.direct_fixture import DEFAULTS, SECRET, DirectFixture, Recorder, until

# Each test on both event loops and on both kinds of socket, but not on all four pairs of them.
pytestmark = pytest.mark.sampled(3)

MIB = 1024 * 1024

# These clients acknowledge nothing, which a server takes amiss when it next looks, however slow the machine is.
SMALL = replace(DEFAULTS, max_unwritten_bytes=MIB, beat_s=60)


class DeafClient:
    """A client that is proven, sends requests, and reads when it wants to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._number = 0

    def request(self, size: int) -> None:
        """Ask for a reply of so many bytes."""
        self._number += 1
        # Long enough that all requests together fill the buffers of any socket.
        payload = (b"%d" % size).ljust(20_000)
        self.writer.write(HEADER.pack(len(payload), Kind.REQUEST, self._number, 0) + payload)


async def deaf_client(direct: DirectFixture, endpoint: Endpoint) -> DeafClient:
    reader, writer = await direct.dial(endpoint)
    handshake = ClientHandshake(SECRET, Claim(VERSION, os.urandom(16), 1, endpoint.boot), os.urandom(NONCE_BYTES))
    writer.write(handshake.hello())
    writer.write(handshake.prove(await reader.readexactly(CHALLENGE_BYTES)))
    handshake.check(await reader.readexactly(WELCOME_BYTES))
    writer.write(wanted_frames([]))
    return DeafClient(reader, writer)


async def test_requests_of_a_client_that_does_not_read_are_not_read(direct: DirectFixture) -> None:
    ran = Counter[str]()

    async def handler(raw: bytes, slot: int) -> bytes:
        ran["requests"] += 1
        return bytes(int(raw))

    client = await deaf_client(direct, await direct.serve(handler, SMALL))
    size, asked = 100_000, 1000
    for _ in range(asked):
        client.request(size)
    before = -1
    while ran["requests"] != before:
        before = ran["requests"]
        for _ in range(200):
            await asyncio.sleep(0)
    # What fits into the bound, the buffers of both sockets and of this stream, and what had been read when the bound was reached.
    assert 0 < ran["requests"] < asked
    # Those that the server has not read wait with the client.
    assert client.writer.transport.get_write_buffer_size() > MIB
    async with asyncio.timeout(30):
        for _ in range(asked):
            header = await client.reader.readexactly(HEADER.size)
            await client.reader.readexactly(int.from_bytes(header[:4]))
    assert ran["requests"] == asked
    client.writer.close()


async def test_a_client_that_acknowledges_nothing_is_closed(direct: DirectFixture, caplog: pytest.LogCaptureFixture) -> None:
    async def handler(raw: bytes, slot: int) -> bytes:
        return bytes(int(raw))

    client = await deaf_client(direct, await direct.serve(handler, replace(SMALL, beat_s=0.05)))
    for _ in range(3):
        client.request(MIB)
    async with asyncio.timeout(20):
        while await client.reader.read(MIB):
            pass
    client.writer.close()
    assert "bytes after a reply and acknowledges none" in caplog.text


async def test_a_server_works_on_so_many_requests_of_a_client_and_reads_the_others_later(direct: DirectFixture) -> None:
    recorder = Recorder()
    raws = [b"%d" % number for number in range(200)]
    gates = [recorder.hold(raw) for raw in raws]
    server = direct.server(recorder, replace(DEFAULTS, max_running=3, beat_s=0.02))
    channel = direct.channel(await server.start(), replace(DEFAULTS, lost_s=0.3))
    tasks = [asyncio.create_task(channel.request(raw)) for raw in raws]
    # Longer than a silence that counts as a loss: heartbeats come, although nothing is read.
    await until(lambda: channel.traffic[0] > 40 * HEADER.size)
    assert recorder.order == raws[:3]
    for gate in gates:
        gate.set()
    await asyncio.gather(*tasks)
    assert channel.reconnects == 0
    assert recorder.order == raws


async def test_requests_wait_for_a_server_that_does_not_read(direct: DirectFixture) -> None:
    recorder = Recorder()
    proxy = await direct.proxy(await direct.serve(recorder))
    channel = direct.channel(proxy.endpoint)
    await channel.request(b"connected")
    raws = [(b"%d" % number).ljust(100_000) for number in range(500)]
    with proxy.frozen():
        before = channel.traffic[1]
        tasks = [asyncio.create_task(channel.request(raw)) for raw in raws]
        for _ in range(200):
            await asyncio.sleep(0)
        taken = channel.traffic[1] - before
        # Much less than 50 MB: what the buffers of the sockets and of this process's transport hold.
        assert taken < 20 * MIB
        cancelled = tasks.pop()
        cancelled.cancel()
    async with asyncio.timeout(30):
        await asyncio.gather(*tasks)
    assert recorder.order == [b"connected", *raws[:-1]]


SHORT = 1000
"""Bytes of the short frames that are put into an outbox here."""


class FakeTransport(asyncio.WriteTransport):
    """Takes frames until its buffer is full, as often as it is emptied."""

    def __init__(self, frames_at_once: int | None = None) -> None:
        super().__init__()
        self.frames: list[bytes] = []
        self.writes = 0
        self.is_closed = False
        self._buffered = 0
        self.outbox = FrameQueue()
        self.writer = Writer(self, self.outbox, frames_at_once)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == HIGH_WATER

    def write(self, data: bytes | bytearray | memoryview) -> None:
        whole = bytes(data)
        short = whole.startswith((b"short", b"more"))
        self.frames += [whole[start : start + SHORT] for start in range(0, len(whole), SHORT)] if short else [whole]
        self.writes += 1
        self._buffered += len(data)
        if self._buffered > HIGH_WATER:
            self.writer.pause()

    def writelines(self, list_of_data: object) -> None:
        assert isinstance(list_of_data, tuple)
        self.write(b"".join(list_of_data))

    def empty(self) -> None:
        self._buffered = 0
        self.writer.resume()

    def put(self, whole: bytes) -> None:
        self.outbox.put_frames(whole)
        self.writer.pump()

    def put_long(self, kind: Kind, number: int, payload: bytes) -> None:
        self.outbox.put_long(kind, number, payload)
        self.writer.pump()

    def abort(self) -> None:
        self.is_closed = True

    def close(self) -> None:
        self.is_closed = True


async def test_short_frames_and_pieces_take_turns_and_none_starves() -> None:
    transport = FakeTransport()
    outbox = transport.outbox
    for number in range(2):
        transport.put_long(Kind.REQUEST, number, bytes(10 * MAX_PAYLOAD))
    for _ in range(1000):
        transport.put(b"short".ljust(SHORT))
    while outbox.unwritten_bytes:
        transport.empty()
        transport.put(b"more".ljust(SHORT))
        await asyncio.sleep(0)
    pieces = [place for place, written in enumerate(transport.frames) if len(written) > SHORT]
    numbers = [transport.frames[place][12] for place in pieces]
    assert sorted(numbers) == [0] * 10 + [1] * 10
    assert abs(sum(numbers[:10]) - 5) <= 1
    between = [later - earlier - 1 for earlier, later in pairwise(pieces)]
    assert max(between) <= (HIGH_WATER + GATHERED_BYTES) // SHORT + 1
    assert min(between[:3]) > 0
    assert outbox.written_bytes == sum(map(len, transport.frames))


async def test_short_frames_of_one_pass_of_the_event_loop_are_written_together_in_their_order() -> None:
    transport = FakeTransport()
    # Until a pass had several frames, its first does not wait for others.
    for passing, writes in enumerate((2, 1, 1)):
        before = transport.writes
        frames = [f"short {passing} {number}".encode().ljust(SHORT) for number in range(10)]
        for whole in frames:
            transport.put(whole)
        await asyncio.sleep(0)
        assert transport.writes - before == writes
        assert transport.frames[-10:] == frames
        assert transport.outbox.unwritten_bytes == 0


async def test_so_many_frames_are_written_while_the_pass_goes_on() -> None:
    transport = FakeTransport(frames_at_once=4)
    for _ in range(2):
        transport.put(b"short".ljust(SHORT))
    await asyncio.sleep(0)
    for _ in range(2):
        before = len(transport.frames)
        written = []
        for _ in range(10):
            transport.put(b"short".ljust(SHORT))
            written.append(len(transport.frames) - before)
        assert written == [0, 0, 0, 4, 4, 4, 4, 8, 8, 8]
        await asyncio.sleep(0)
        assert len(transport.frames) - before == 10


async def test_a_client_writes_some_of_its_requests_while_it_begins_with_others(direct: DirectFixture) -> None:
    recorder = Recorder()
    endpoint = await direct.serve(recorder)
    whole, parted = (direct.channel(endpoint, replace(DEFAULTS, requests_at_once=number)) for number in (None, 4))
    for channel in (whole, parted):
        for _ in range(2):
            # After a pass with several requests the first of a pass waits for others.
            await asyncio.gather(*(channel.request(b"before") for _ in range(3)))
        before = channel.traffic[1]
        calls = [channel.call(b"now").reply() for _ in range(6)]
        assert (channel.traffic[1] > before) == (channel is parted)
        await asyncio.gather(*calls)


async def test_short_frames_that_come_one_by_one_do_not_wait() -> None:
    transport = FakeTransport()
    for _ in range(2):
        transport.put(b"short".ljust(SHORT))
    await asyncio.sleep(0)
    for number in range(LONE_PASSES + 3):
        before = transport.writes
        transport.put(b"short".ljust(SHORT))
        # A connection asks once more at the end of a step, although nothing has come since.
        transport.writer.pump()
        assert transport.writes - before == (number >= LONE_PASSES)
        await asyncio.sleep(0)
        assert transport.writes - before == 1


class Silent:
    """A side that has nothing to say of its own."""

    def __init__(self) -> None:
        self.outbox = FrameQueue()

    def receive_data(self, data: bytes) -> None:
        pass


class Ended(Connection):
    """Has nothing to do when it is closed."""

    def connection_closed(self) -> None:
        pass


async def test_the_last_frame_of_a_connection_is_written_before_it_is_closed() -> None:
    transport = FakeTransport()
    side = Silent()
    connection = Ended(transport, "here", side)  # type: ignore[arg-type]
    for _ in range(3):
        side.outbox.put_frames(b"short".ljust(SHORT))
        connection.pump()
    side.outbox.put_frames(b"more".ljust(SHORT))
    connection.close_written(10)
    connection.connection_lost(None)
    assert [whole[:5] for whole in transport.frames] == [b"short"] * 3 + [b"more "]
    assert transport.is_closed


async def test_nothing_is_written_to_a_connection_that_was_ended() -> None:
    transport = FakeTransport()
    side = Silent()
    connection = Ended(transport, "here", side)  # type: ignore[arg-type]
    side.outbox.put_frames(b"short".ljust(SHORT))
    connection.pump()
    side.outbox.put_long(Kind.REPLY, 1, bytes(2 * MAX_PAYLOAD))
    connection.pump()
    before = transport.writes
    side.outbox.put_frames(b"more".ljust(SHORT))
    connection.pump()
    connection.abort()
    await asyncio.sleep(0)
    assert transport.writes == before
    assert side.outbox.unwritten_bytes == 0


async def test_short_frames_that_gather_take_a_bounded_part_of_memory() -> None:
    transport = FakeTransport()
    for _ in range(200):
        transport.put(b"short".ljust(SHORT))
        assert transport.outbox.short_bytes < GATHERED_BYTES + SHORT
    assert len(transport.frames) > 100


async def test_only_so_many_long_messages_are_written_at_once() -> None:
    transport = FakeTransport()
    for number in range(10):
        transport.put_long(Kind.REPLY, number, bytes(3 * MAX_PAYLOAD))
    unfinished: set[int] = set()
    while transport.outbox.unwritten_bytes:
        transport.empty()
    for written in transport.frames:
        (unfinished.add if written[4] == Kind.PIECE else unfinished.discard)(written[12])
        assert len(unfinished) <= LONG_AT_ONCE
    assert len(transport.frames) == 30
    assert unfinished == set()
