"""Requests and replies over a direct connection that nothing disturbs."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from dataclasses import replace

import pytest

from actors.interfaces.transport import EARLY_REPLY
from runtime.transport.io.calls import ConnectionLostError
from runtime.transport.io.server_connection import REQUESTS_AT_ONCE
from runtime.transport.protocol.frames import MAX_PAYLOAD, MAX_SLOT, HandlerFailedError
from tests.support.fixtures.direct_fixture import DEFAULTS, DirectFixture, Recorder, answer, until

# Each test on both event loops and on both kinds of socket, but not on all four pairs of them.
pytestmark = pytest.mark.sampled(3)

SIZES = [0, 1, MAX_PAYLOAD - 5, MAX_PAYLOAD - 4, MAX_PAYLOAD - 3, MAX_PAYLOAD, MAX_PAYLOAD + 1, 3 * MAX_PAYLOAD]


async def test_a_request_gets_its_reply(direct: DirectFixture) -> None:
    recorder = Recorder()
    channel = direct.channel(await direct.serve(recorder))
    assert await channel.request(b"hi", 7) == b"re: hi"
    assert await channel.request(b"there", MAX_SLOT) == b"re: there"
    assert recorder.slots == [7, MAX_SLOT]


@pytest.mark.parametrize("size", SIZES)
async def test_a_message_of_any_size_arrives_whole(direct: DirectFixture, size: int) -> None:
    async def handler(raw: bytes, slot: int) -> bytes:
        return raw[::-1]

    raw = random.Random(size).randbytes(size)
    channel = direct.channel(await direct.serve(handler))
    assert await channel.request(raw) == raw[::-1]


async def test_a_message_that_is_too_long_fails_and_nothing_else(direct: DirectFixture) -> None:
    async def handler(raw: bytes, slot: int) -> bytes:
        return bytes(slot)

    options = replace(DEFAULTS, max_message_bytes=2 * MAX_PAYLOAD)
    channel = direct.channel(await direct.serve(handler, options))
    waits = asyncio.create_task(channel.request(b"", 1))
    with pytest.raises(HandlerFailedError, match="ValueError: the reply has 600000 bytes, and 524288 are allowed"):
        await channel.request(b"", 600_000)
    assert await waits == b"\0"


async def test_what_a_handler_raises_reaches_the_client(direct: DirectFixture) -> None:
    async def handler(raw: bytes, slot: int) -> bytes:
        if slot == 1:
            raise asyncio.CancelledError("made up")
        if slot == 2:
            raise SystemExit(3)
        raise KeyError("no such session \N{SNOWMAN}")

    channel = direct.channel(await direct.serve(handler))
    with pytest.raises(HandlerFailedError, match="KeyError: 'no such session \N{SNOWMAN}'") as caught:
        await channel.request(b"hi")
    assert caught.value.kind == "KeyError"
    with pytest.raises(HandlerFailedError, match="CancelledError: made up"):
        await channel.request(b"hi", 1)
    with pytest.raises(HandlerFailedError, match="SystemExit: 3"):
        await channel.request(b"hi", 2)


async def test_requests_are_handled_in_the_order_in_which_they_were_sent(direct: DirectFixture) -> None:
    recorder = Recorder()
    channel = direct.channel(await direct.serve(recorder))
    chance = random.Random(1)
    # Together they fill all buffers, so that many of them wait in line.
    raws = [str(number).encode().ljust(chance.choice((10, 1_000, 200_000)), b".") for number in range(300)]
    await asyncio.gather(*(channel.request(raw) for raw in raws))
    assert recorder.order == raws


async def test_a_long_message_holds_up_no_short_ones(direct: DirectFixture) -> None:
    recorder = Recorder()
    channel = direct.channel(await direct.serve(recorder))
    await channel.request(b"connected")
    long = [asyncio.create_task(channel.request(bytes([byte]) * (32 << 20))) for byte in range(2)]
    await asyncio.sleep(0)
    for _ in range(5):
        await channel.request(b"short")
    assert not any(task.done() for task in long)
    assert recorder.order == [b"connected", *[b"short"] * 5]
    for byte, task in enumerate(long):
        assert await task == answer(bytes([byte]) * (32 << 20))


async def test_a_request_that_is_cancelled_goes_on_and_its_reply_is_dropped(direct: DirectFixture) -> None:
    recorder = Recorder()
    long = b"long" * 10_000
    gate = recorder.hold(long)
    server = direct.server(recorder)
    channel = direct.channel(await server.start(), replace(DEFAULTS, lost_s=0.1))
    task = asyncio.create_task(channel.request(long))
    await until(lambda: recorder.order)
    written_bytes = channel.traffic[1]
    task.cancel()
    await asyncio.wait([task])
    # The server hears of it before the next request.
    await until(lambda: channel.traffic[1] > written_bytes)
    assert await channel.request(b"other") == b"re: other"
    gate.set()
    await until(lambda: recorder.finished == [b"other", long])
    assert await channel.request(b"after") == b"re: after"
    assert channel.traffic[0] < len(long)
    await until(lambda: server.statistics().kept_bytes == 0)
    assert server.statistics().running == 0


async def test_replies_are_kept_only_until_they_are_acknowledged(direct: DirectFixture) -> None:
    server = direct.server(Recorder())
    channel = direct.channel(await server.start(), replace(DEFAULTS, lost_s=0.05))
    for number in range(200):
        await channel.request(b"%d" % number)
        assert server.statistics().kept_bytes < 64 * 10
    assert server.statistics().kept_bytes > 0
    await until(lambda: server.statistics().kept_bytes == 0)


async def test_a_channel_that_is_closed_is_dropped_by_both_sides(direct: DirectFixture) -> None:
    recorder = Recorder()
    gate = recorder.hold(b"long")
    server = direct.server(recorder)
    connections = direct.connections()
    endpoint = await server.start()
    channel = connections.to(endpoint)
    assert connections.to(endpoint) is channel
    waits = asyncio.create_task(channel.request(b"long"))
    await until(lambda: recorder.order)
    channel.close()
    with pytest.raises(ConnectionLostError, match="closed on this side") as caught:
        await waits
    assert caught.value.was_sent
    with pytest.raises(ConnectionLostError, match="closed on this side"):
        await channel.request(b"more")
    await until(lambda: server.statistics().clients == 0)
    assert recorder.finished == []
    gate.set()
    await until(lambda: recorder.finished == [b"long"])
    assert await connections.to(endpoint).request(b"again") == b"re: again"


@pytest.mark.sampled(4)
async def test_handlers_go_on_when_nothing_else_holds_them(direct: DirectFixture) -> None:
    ended = asyncio.Event()
    held: list[weakref.ref[asyncio.Future[None]]] = []

    async def handler(raw: bytes, slot: int) -> bytes:
        future = asyncio.get_running_loop().create_future()
        held.append(weakref.ref(future))
        await future
        ended.set()
        return b""

    server = direct.server(handler)
    channel = direct.channel(await server.start())
    task = asyncio.create_task(channel.request(b"hi"))
    await until(lambda: held)
    task.cancel()
    channel.close()
    await until(lambda: server.statistics().clients == 0)
    for _ in range(20):
        # Until the event loop has let go of the connection.
        await asyncio.sleep(0)
    gc.collect()
    future = held[0]()
    assert future is not None
    future.set_result(None)
    await asyncio.wait_for(ended.wait(), 10)


async def test_statistics_count_connections_and_bytes(direct: DirectFixture) -> None:
    server = direct.server(Recorder())
    connections = direct.connections()
    await connections.to(await server.start()).request(b"." * 1000)
    figures = connections.statistics()
    assert (figures.connections, figures.reconnects) == (1, 0)
    assert 1000 < figures.read_bytes < 1100
    assert 1000 < figures.written_bytes < 1100
    assert server.statistics().connections == 1
    await connections.close()
    assert connections.statistics().connections == 0
    assert connections.statistics().read_bytes == figures.read_bytes


async def test_replies_before_the_last_one_arrive_before_it_and_only_where_they_are_wanted(direct: DirectFixture) -> None:
    async def handler(raw: bytes, slot: int) -> bytes:
        reply = EARLY_REPLY.get()
        assert reply is not None
        reply(b"begun " + raw)
        reply(bytes(MAX_PAYLOAD + 1))
        await may_end.wait()
        return b"ended " + raw

    may_end = asyncio.Event()
    channel = direct.channel(await direct.serve(handler))
    early: list[bytes] = []
    with channel.call(b"one", 0, early.append) as one, channel.call(b"two") as two:
        replies = asyncio.gather(*[one.reply(), two.reply()])
        await until(lambda: early)
        assert not replies.done()
        may_end.set()
        assert await replies == [b"ended one", b"ended two"]
    # What is too long for one frame is left out.
    assert early == [b"begun one"]


async def test_code_that_fails_at_an_early_reply_harms_no_other_request(direct: DirectFixture) -> None:
    async def handler(raw: bytes, slot: int) -> bytes:
        reply = EARLY_REPLY.get()
        assert reply is not None
        reply(raw)
        return raw

    def fail(raw: bytes) -> None:
        raise ValueError("of the caller")

    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(str(context["exception"])))
    channel = direct.channel(await direct.serve(handler))
    with channel.call(b"one", 0, fail) as call:
        assert await call.reply() == b"one"
    assert await channel.request(b"two") == b"two"
    assert told == ["of the caller"]
    assert channel.is_connected


async def test_a_request_comes_between_the_thousands_of_another_client(direct: DirectFixture) -> None:
    began: list[int] = []

    async def handler(raw: bytes, slot: int) -> bytes:
        began.append(slot)
        return raw

    endpoint = await direct.serve(handler)
    crowd, one = direct.channel(endpoint), direct.channel(endpoint)
    await asyncio.gather(crowd.request(b"warm up", 0), one.request(b"warm up", 0))
    many = [asyncio.create_task(crowd.request(b"many", 1)) for _ in range(5_000)]
    single = asyncio.create_task(one.request(b"single", 2))
    await single
    before = began.index(2)
    await asyncio.gather(*many)
    assert before <= 10 * REQUESTS_AT_ONCE
    assert began.count(1) == 5_000
