"""Requests outlive the connections that they were sent over, and run once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest

from runtime.transport.endpoint import Endpoint, new_boot
from runtime.transport.io.calls import ConnectionLostError, Loss
from runtime.transport.io.channel import MAX_CUTS, Channels
from runtime.transport.protocol.frames import HEADER, MAX_PAYLOAD, HandlerFailedError
from runtime.transport.protocol.handshake import CHALLENGE_BYTES, HELLO_BYTES, PROOF_BYTES, WELCOME_BYTES
from tests.support.fixtures.direct_fixture import DEFAULTS, NODE, SECRET, DirectFixture, Recorder, answer, until
from tests.support.servers.cutting_proxy import NO_CUT, Cut

# Each test on both event loops and on both kinds of socket, but not on all four pairs of them.
pytestmark = pytest.mark.sampled(3)

UP = HELLO_BYTES + PROOF_BYTES + HEADER.size
"""Bytes that a client sends before its first request: the handshake, and a list that is empty."""

DOWN = CHALLENGE_BYTES + WELCOME_BYTES
"""Bytes that a server sends before its first frame."""

REQUEST = b"request" * 10
LONG = b"long" * MAX_PAYLOAD

QUICK = replace(DEFAULTS, connect_s=0.2, lost_s=0.2, beat_s=0.05)

PLACES = {
    "at connect": Cut(up=0),
    "in the hello": Cut(up=HELLO_BYTES // 2),
    "before the challenge": Cut(up=HELLO_BYTES),
    "in the challenge": Cut(down=CHALLENGE_BYTES // 2),
    "in the proof": Cut(up=UP - HEADER.size - 1),
    "in the welcome": Cut(down=DOWN - 1),
    "before the request": Cut(up=UP),
    "in a header": Cut(up=UP + HEADER.size // 2),
    "in a request": Cut(up=UP + HEADER.size + 10),
    "between request and reply": Cut(down=DOWN),
    "in the header of a reply": Cut(down=DOWN + 5),
    "in a reply": Cut(down=DOWN + HEADER.size + 10),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("raw", [REQUEST, LONG], ids=["short", "long"])
async def test_a_connection_that_is_cut_is_made_again(direct: DirectFixture, place: str, raw: bytes) -> None:
    recorder = Recorder()
    proxy = await direct.proxy(await direct.serve(recorder), [PLACES[place], PLACES[place]])
    channel = direct.channel(proxy.endpoint)
    async with asyncio.timeout(20):
        assert await channel.request(raw) == answer(raw)
        assert await channel.request(b"another") == b"re: another"
    assert recorder.runs == {raw: 1, b"another": 1}
    assert len(proxy.recorded) == 3


async def test_a_reply_that_comes_while_there_is_no_connection_is_kept(direct: DirectFixture) -> None:
    recorder = Recorder()
    gate = recorder.hold(REQUEST)
    server = direct.server(recorder)
    proxy = await direct.proxy(await server.start())
    channel = direct.channel(proxy.endpoint, QUICK)
    with channel.call(REQUEST) as call:
        task = asyncio.ensure_future(call.reply())
        await until(lambda: recorder.order)
        proxy.stop_listening()
        proxy.cut_all()
        with pytest.raises(ConnectionLostError, match="nothing listens there") as caught:
            await task
        assert (caught.value.loss, caught.value.was_sent) == (Loss.REFUSED, True)
        await until(lambda: server.statistics().connections == 0)
        gate.set()
        await until(lambda: server.statistics().running == 0)
        assert server.statistics().kept_bytes == len(answer(REQUEST))
        await proxy.start()
        channel.endpoint = proxy.endpoint
        assert await call.reply() == answer(REQUEST)
    assert recorder.runs == {REQUEST: 1}


async def test_a_request_that_was_not_sent_is_known_as_such(direct: DirectFixture) -> None:
    recorder = Recorder()
    proxy = await direct.proxy(await direct.serve(recorder))
    proxy.stop_listening()
    channel = direct.channel(proxy.endpoint)
    call = channel.call(REQUEST)
    with pytest.raises(ConnectionLostError) as caught:
        await call.reply()
    assert (caught.value.loss, caught.value.was_sent) == (Loss.REFUSED, False)
    await proxy.start()
    channel.endpoint = proxy.endpoint
    assert await call.reply() == answer(REQUEST)


async def test_callers_hear_of_connections_that_break_again_and_again(direct: DirectFixture) -> None:
    recorder = Recorder()
    proxy = await direct.proxy(await direct.serve(recorder), [Cut(down=DOWN)] * MAX_CUTS + [NO_CUT])
    channel = direct.channel(proxy.endpoint)
    call = channel.call(REQUEST)
    with pytest.raises(ConnectionLostError, match="break at once"):
        await call.reply()
    assert await call.reply() == answer(REQUEST)
    assert recorder.runs == {REQUEST: 1}


async def test_another_process_at_the_address_is_not_taken_for_the_same(direct: DirectFixture) -> None:
    recorder = Recorder()
    endpoint = await direct.serve(recorder)
    connections = direct.connections()
    gone = msgspec.structs.replace(endpoint, boot=new_boot())
    channel = connections.to(gone)
    with pytest.raises(ConnectionLostError) as caught:
        await channel.request(REQUEST)
    assert (caught.value.loss, caught.value.was_sent) == (Loss.OTHER_BOOT, False)
    assert connections.to(gone) is not channel
    assert await connections.to(endpoint).request(REQUEST) == answer(REQUEST)
    assert recorder.runs == {REQUEST: 1}


async def test_a_process_that_was_replaced_while_a_request_ran_is_found_out(direct: DirectFixture) -> None:
    recorder, after = Recorder(), Recorder()
    recorder.hold(REQUEST)
    first = direct.server(recorder)
    proxy = await direct.proxy(await first.start())
    channel = direct.channel(proxy.endpoint)
    call = channel.call(REQUEST)
    task = asyncio.ensure_future(call.reply())
    await until(lambda: recorder.order)
    proxy.aim(await direct.serve(after))
    await first.close()
    for _ in range(2):
        with pytest.raises(ConnectionLostError, match="another process listens there") as caught:
            await task
        assert caught.value.was_sent
        task = asyncio.ensure_future(call.reply())
    with pytest.raises(ConnectionLostError):
        await task
    assert after.runs == {}


async def test_a_client_that_was_away_for_too_long_is_told_and_its_handler_goes_on(direct: DirectFixture) -> None:
    recorder = Recorder()
    gate = recorder.hold(REQUEST)
    server = direct.server(recorder, replace(DEFAULTS, grace_s=0.01))
    proxy = await direct.proxy(await server.start())
    channel = direct.channel(proxy.endpoint)
    call = channel.call(REQUEST)
    task = asyncio.ensure_future(call.reply())
    await until(lambda: recorder.order)
    proxy.stop_listening()
    proxy.cut_all()
    with pytest.raises(ConnectionLostError):
        await task
    await until(lambda: server.statistics().clients == 0)
    await proxy.start()
    channel.endpoint = proxy.endpoint
    for _ in range(2):
        with pytest.raises(ConnectionLostError, match="has forgotten this client") as caught:
            await call.reply()
        assert caught.value.was_sent
    assert await channel.request(b"another") == b"re: another"
    gate.set()
    await until(lambda: recorder.finished == [b"another", REQUEST])
    assert recorder.runs == {REQUEST: 1, b"another": 1}


async def test_a_client_that_comes_again_in_time_is_not_forgotten_later(direct: DirectFixture) -> None:
    recorder = Recorder()
    gate = recorder.hold(REQUEST)
    server = direct.server(recorder, replace(DEFAULTS, grace_s=0.1))
    proxy = await direct.proxy(await server.start())
    channel = direct.channel(proxy.endpoint)
    task = asyncio.create_task(channel.request(REQUEST))
    await until(lambda: recorder.order)
    proxy.cut_all()
    await until(lambda: channel.reconnects == 1)
    clock = asyncio.get_running_loop().time
    end_s = clock() + 0.15
    await until(lambda: clock() > end_s)
    assert server.statistics().clients == 1
    gate.set()
    assert await task == answer(REQUEST)


async def test_a_peer_that_says_nothing_is_taken_for_lost(direct: DirectFixture) -> None:
    recorder = Recorder()
    recorder.hold(REQUEST)
    endpoint = await direct.serve(recorder)
    proxy = await direct.proxy(endpoint)
    channel = direct.channel(proxy.endpoint, QUICK)
    task = asyncio.create_task(channel.request(REQUEST))
    await until(lambda: recorder.order)
    with proxy.frozen(), pytest.raises(ConnectionLostError) as caught:
        await task
    assert (caught.value.loss, caught.value.was_sent) == (Loss.UNREACHABLE, True)


async def test_heartbeats_keep_a_connection_whose_handler_takes_long(direct: DirectFixture) -> None:
    recorder = Recorder()
    gate = recorder.hold(REQUEST)
    options = replace(DEFAULTS, beat_s=0.02, lost_s=0.2)
    proxy = await direct.proxy(await direct.serve(recorder, options))
    channel = direct.channel(proxy.endpoint, options)
    task = asyncio.create_task(channel.request(REQUEST))
    # Heartbeats for three times as long as would be taken for a loss.
    await until(lambda: proxy.recorded and len(proxy.recorded[0].down) >= DOWN + 30 * HEADER.size)
    gate.set()
    assert await task == answer(REQUEST)
    assert channel.reconnects == 0


async def test_an_address_that_cannot_be_reached_is_no_refusal(direct: DirectFixture) -> None:
    endpoint = Endpoint(NODE, "/dev/null/socket", "", 0, new_boot())
    near = Channels(SECRET, NODE).to(endpoint)
    with pytest.raises(ConnectionLostError) as caught:
        await near.request(REQUEST)
    assert (caught.value.loss, caught.value.was_sent) == (Loss.UNREACHABLE, False)


async def test_the_failure_of_a_handler_outlives_a_cut(direct: DirectFixture) -> None:
    runs: list[bytes] = []

    async def handler(raw: bytes, slot: int) -> bytes:
        runs.append(raw)
        raise ValueError("no")

    proxy = await direct.proxy(await direct.serve(handler), [Cut(down=DOWN + 3)])
    with pytest.raises(HandlerFailedError, match="ValueError: no"):
        await direct.channel(proxy.endpoint).request(REQUEST)
    assert runs == [REQUEST]
