"""Peers without the secret, and peers that send anything but frames."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from runtime.transport.endpoint import Endpoint
from runtime.transport.io.calls import ConnectionLostError, Loss
from runtime.transport.protocol.frames import HEADER, LONG_AT_ONCE, MAX_PAYLOAD, Kind, frame, wanted_frames
from runtime.transport.protocol.handshake import (
    CHALLENGE_BYTES,
    HELLO_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    VERSION,
    WELCOME_BYTES,
    Claim,
    ClientHandshake,
    HandshakeReply,
    ServerHandshake,
    Welcome,
)
from tests.support.fixtures.direct_fixture import DEFAULTS, NODE, SECRET, DirectFixture, Recorder, until

# Each test on both event loops and on both kinds of socket, but not on all four pairs of them.
pytestmark = pytest.mark.sampled(3)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OTHER_SECRET = b"not the secret of the deployment"

GARBAGE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".ljust(HELLO_BYTES),
    "zeros": bytes(HELLO_BYTES),
    "noise": random.Random(1).randbytes(HELLO_BYTES),
    "a frame of 4 GiB": HEADER.pack(2**32 - 1, Kind.REQUEST, 1, 0).ljust(HELLO_BYTES),
    "too much": b"rgd" + bytes(HELLO_BYTES),
}

BAD_FRAMES = {
    "4 GiB": HEADER.pack(2**32 - 1, Kind.REQUEST, 1, 0),
    "one byte too many": HEADER.pack(MAX_PAYLOAD + 1, Kind.PIECE, 1, 0),
    "an unknown kind": frame(Kind.BEAT, 0).replace(bytes([Kind.BEAT]), b"\xff"),
    "a reply from a client": frame(Kind.REPLY, 1, b"hi"),
    "a request before the list of those that wait": frame(Kind.REQUEST, 1, b"hi"),
    "two lists of those that wait": wanted_frames([]) * 2,
    "half a number": frame(Kind.ACK, 0, b"1234"),
    "empty pieces": frame(Kind.PIECE, 1),
    "many long messages": b"".join(frame(Kind.PIECE, number, b"hi") for number in range(LONG_AT_ONCE + 1)),
    "noise": random.Random(2).randbytes(1000),
}


async def ended(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other side closes."""
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""


async def pretend_server(direct: DirectFixture, serve: Serve) -> tuple[asyncio.Server, Endpoint]:
    """A server of the test's own making, and where it listens."""
    if direct.kind == "unix":
        path = str(direct.folder.parent / "pretend")
        return await asyncio.start_unix_server(serve, path), Endpoint(NODE, path, "", 0, bytes(16))
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, Endpoint(NODE, "", "127.0.0.1", server.sockets[0].getsockname()[1], bytes(16))


@asynccontextmanager
async def proven(
    direct: DirectFixture, endpoint: Endpoint, version: int = VERSION, client: bytes = b"", attempt: int = 1
) -> AsyncIterator[tuple[Streams, Welcome]]:
    """A stream on which both sides are proven, and the welcome."""
    reader, writer = await direct.dial(endpoint)
    handshake = ClientHandshake(SECRET, Claim(version, client or os.urandom(16), attempt, endpoint.boot), os.urandom(NONCE_BYTES))
    writer.write(handshake.hello())
    writer.write(handshake.prove(await reader.readexactly(CHALLENGE_BYTES)))
    welcome = handshake.check(await reader.readexactly(WELCOME_BYTES))
    yield (reader, writer), welcome
    writer.close()


async def test_a_client_with_another_secret_is_not_heard(direct: DirectFixture, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    server = direct.server(recorder)
    endpoint = await server.start()
    channel = direct.channel(endpoint, secret=OTHER_SECRET)
    with pytest.raises(ConnectionLostError, match="are the secret and TLS the same") as caught:
        await channel.request(b"hi")
    assert (caught.value.loss, caught.value.was_sent) == (Loss.NOT_ADMITTED, False)
    assert recorder.order == []
    assert server.statistics().clients == server.statistics().unproven == 0
    # Several attempts, one line.
    assert len([each for each in caplog.records if "refused a connection" in each.message]) == 1
    assert OTHER_SECRET.decode() not in caplog.text


async def test_a_client_without_the_secret_sees_a_nonce_and_nothing_else(direct: DirectFixture) -> None:
    endpoint = await direct.serve(Recorder())
    reader, writer = await direct.dial(endpoint)
    handshake = ClientHandshake(OTHER_SECRET, Claim(VERSION, bytes(16), 1, endpoint.boot), bytes(NONCE_BYTES))
    writer.write(handshake.hello())
    challenge = await reader.readexactly(CHALLENGE_BYTES)
    assert endpoint.boot not in challenge
    writer.write(handshake.prove(challenge))
    assert await ended(reader) == b""
    writer.close()


async def test_a_server_with_another_secret_gets_no_request(direct: DirectFixture) -> None:
    heard = bytearray()

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.readexactly(HELLO_BYTES))
        writer.write(bytes(CHALLENGE_BYTES))
        heard.extend(await reader.read(1000))
        writer.write(bytes(WELCOME_BYTES))
        heard.extend(await ended(reader))
        writer.close()

    pretender, endpoint = await pretend_server(direct, pretend)
    async with pretender:
        with pytest.raises(ConnectionLostError, match="it does not have the secret"):
            await direct.channel(endpoint).request(b"confidential")
    assert b"confidential" not in heard


async def test_what_a_server_sends_right_after_the_handshake_is_read(direct: DirectFixture) -> None:
    async def reply_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handshake = ServerHandshake(SECRET, bytes(NONCE_BYTES))
        writer.write(handshake.challenge(await reader.readexactly(HELLO_BYTES)))
        handshake.check(await reader.readexactly(PROOF_BYTES))
        writer.write(handshake.welcome(Welcome(HandshakeReply.ADMITTED)) + frame(Kind.BEAT, 0) + frame(Kind.REPLY, 1, b"early"))
        await ended(reader)
        writer.close()

    pretender, endpoint = await pretend_server(direct, reply_early)
    async with pretender:
        channel = direct.channel(endpoint)
        assert await channel.request(b"hi") == b"early"
        channel.close()


@pytest.mark.parametrize("what", GARBAGE)
async def test_garbage_is_answered_by_closing(direct: DirectFixture, what: str) -> None:
    recorder = Recorder()
    server = direct.server(recorder)
    endpoint = await server.start()
    reader, writer = await direct.dial(endpoint)
    writer.write(GARBAGE[what])
    assert await ended(reader) == b""
    writer.close()
    assert server.statistics().unproven == 0
    assert await direct.channel(endpoint).request(b"hi") == b"re: hi"


async def test_a_client_that_does_not_prove_itself_in_time_is_closed(direct: DirectFixture) -> None:
    server = direct.server(Recorder(), replace(DEFAULTS, connect_s=0.05))
    reader, writer = await direct.dial(await server.start())
    writer.write(b"rgd")
    assert await ended(reader) == b""
    writer.close()
    assert server.statistics().unproven == 0


async def test_only_so_many_clients_may_be_unproven(direct: DirectFixture) -> None:
    server = direct.server(Recorder(), replace(DEFAULTS, max_unproven=5))
    endpoint = await server.start()
    idle = [await direct.dial(endpoint) for _ in range(20)]
    await asyncio.gather(*(ended(reader) for reader, _ in idle[:15]))
    assert server.statistics().unproven == 5
    assert await direct.channel(endpoint).request(b"hi") == b"re: hi"
    for _, writer in idle:
        writer.close()
    await until(lambda: server.statistics().unproven == 0)


@pytest.mark.parametrize("what", BAD_FRAMES)
async def test_a_frame_that_is_none_closes_the_connection_and_says_why(
    direct: DirectFixture, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    server = direct.server(recorder)
    endpoint = await server.start()
    async with proven(direct, endpoint) as ((reader, writer), _):
        writer.write(BAD_FRAMES[what])
        assert await ended(reader) == b""
    assert [each.message for each in caplog.records if "closing the connection" in each.message] != []
    assert recorder.order == []
    assert server.statistics().connections == 0
    assert await direct.channel(endpoint).request(b"hi") == b"re: hi"


async def test_pieces_beyond_the_longest_message_close_the_connection(
    direct: DirectFixture, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = await direct.serve(Recorder(), replace(DEFAULTS, max_message_bytes=MAX_PAYLOAD))
    async with proven(direct, endpoint) as ((reader, writer), _):
        writer.write(frame(Kind.PIECE, 1, bytes(MAX_PAYLOAD)) + frame(Kind.PIECE, 1, b"."))
        assert await ended(reader) == b""
    assert f"a message is longer than {MAX_PAYLOAD} bytes" in caplog.text


async def test_a_server_that_sends_no_frames_is_left(direct: DirectFixture, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    recorder.hold(b"hi")
    proxy = await direct.proxy(await direct.serve(recorder))
    channel = direct.channel(proxy.endpoint)
    task = asyncio.create_task(channel.request(b"hi"))
    await until(lambda: recorder.order)
    proxy.inject(HEADER.pack(2**32 - 1, Kind.REPLY, 1, 0))
    await until(lambda: channel.reconnects == 1)
    assert "a frame says that it has 4294967295 bytes" in caplog.text
    recorder.gates[b"hi"].set()
    assert await task == b"re: hi"
    assert recorder.runs == {b"hi": 1}


async def test_another_version_is_named_on_both_sides(
    direct: DirectFixture, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await direct.serve(Recorder())
    async with proven(direct, endpoint, version=VERSION + 1) as ((reader, _), welcome):
        assert welcome == Welcome(HandshakeReply.OTHER_VERSION, VERSION)
        assert await ended(reader) == b""
    assert f"a client speaks version {VERSION + 1} of direct connections, and this process version {VERSION}" in caplog.text
    monkeypatch.setattr("runtime.transport.io.channel.VERSION", VERSION + 1)
    with pytest.raises(ConnectionLostError, match=rf"another version of the protocol \(version {VERSION}\)"):
        await direct.channel(endpoint).request(b"hi")


async def test_the_newest_connection_of_a_client_counts(direct: DirectFixture) -> None:
    server = direct.server(Recorder())
    endpoint = await server.start()
    client = os.urandom(16)
    async with proven(direct, endpoint, client=client, attempt=5) as ((first, _), welcome):
        assert welcome.admission == HandshakeReply.ADMITTED
        memory = welcome.memory
        # It was overtaken on the way. What it carries is older than what the other one has carried.
        async with proven(direct, endpoint, client=client, attempt=5) as ((late, _), welcome):
            assert welcome.admission == HandshakeReply.OVERTAKEN
            assert await ended(late) == b""
        assert server.statistics().connections == 1
        async with proven(direct, endpoint, client=client, attempt=6) as (_, welcome):
            assert (welcome.admission, welcome.memory) == (HandshakeReply.ADMITTED, memory)
            assert await ended(first) == b""
            assert server.statistics().clients == server.statistics().connections == 1


async def test_the_log_tells_of_one_intruder_once_a_minute(direct: DirectFixture, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "runtime")
    endpoint = await direct.serve(Recorder())
    for _ in range(50):
        reader, writer = await direct.dial(endpoint)
        writer.write(GARBAGE["zeros"])
        await ended(reader)
        writer.close()
    assert len([each for each in caplog.records if each.name.startswith("runtime")]) == 1
