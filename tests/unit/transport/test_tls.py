"""Direct connections over TLS: the same requests, and certificates of one authority on both sides."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.transport.io.connections import Channels
from runtime.transport.io.errors import ConnectionLostError
from runtime.transport.io.server import Server
from runtime.transport.protocol.frames import MAX_PAYLOAD
from tests.support.fixtures.direct_fixture import SECRET, Recorder, answer
from tests.support.servers.certificates import HOST, Authority, Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """The certificate of the deployment."""
    return Authority(tmp_path / "own").issue()


@pytest.fixture
async def server(files: Files) -> AsyncIterator[Server]:
    """A server with that certificate, which does not listen yet."""
    server = Server(Recorder(), SECRET, "here", None, HOST, ssl=files.context(ssl.Purpose.CLIENT_AUTH))
    yield server
    await server.close()


async def test_requests_travel_over_tls(server: Server, files: Files) -> None:
    connections = Channels(SECRET, "there", files.context(ssl.Purpose.SERVER_AUTH))
    channel = connections.to(await server.start())
    raws = [b"short", b"long" * MAX_PAYLOAD, b"another"]
    assert await asyncio.gather(*(channel.request(raw) for raw in raws)) == [answer(raw) for raw in raws]
    await connections.close()


@pytest.mark.parametrize("has_tls", [True, False])
async def test_a_client_without_the_certificate_sends_nothing(server: Server, tmp_path: Path, has_tls: bool) -> None:
    other = Authority(tmp_path / "other").issue().context(ssl.Purpose.SERVER_AUTH) if has_tls else None
    connections = Channels(SECRET, "there", other)
    with pytest.raises(ConnectionLostError) as caught:
        await connections.to(await server.start()).request(b"hi")
    assert not caught.value.was_sent
    await connections.close()
