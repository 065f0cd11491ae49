"""Direct connections over TLS: the same requests, and certificates of one authority on both sides."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.cluster.transport.direct.connections import Connections
from runtime.cluster.transport.direct.errors import ConnectionLostError
from runtime.cluster.transport.direct.server import Server
from runtime.cluster.transport.direct.wire.frames import MAX_PAYLOAD
from tests.support.direct_fixture import SECRET, Recorder, answer

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Files:
    """A certificate that is its own authority, and its key."""

    certificate: Path
    key: Path

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """What one side uses: it shows this certificate, and accepts no others."""
        context = ssl.create_default_context(purpose, cafile=str(self.certificate))
        context.load_cert_chain(self.certificate, self.key)
        context.verify_mode = ssl.CERT_REQUIRED
        return context


def make_files(folder: Path) -> Files:
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "raygrove tests")])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = Files(folder / "certificate.pem", folder / "key.pem")
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """The certificate of the deployment."""
    return make_files(tmp_path / "own")


@pytest.fixture
async def server(files: Files) -> AsyncIterator[Server]:
    """A server with that certificate, which does not listen yet."""
    server = Server(Recorder(), SECRET, "here", None, HOST, ssl=files.context(ssl.Purpose.CLIENT_AUTH))
    yield server
    await server.close()


async def test_requests_travel_over_tls(server: Server, files: Files) -> None:
    connections = Connections(SECRET, "there", files.context(ssl.Purpose.SERVER_AUTH))
    channel = connections.to(await server.start())
    raws = [b"short", b"long" * MAX_PAYLOAD, b"another"]
    assert await asyncio.gather(*(channel.request(raw) for raw in raws)) == [answer(raw) for raw in raws]
    await connections.close()


@pytest.mark.parametrize("has_tls", [True, False])
async def test_a_client_without_the_certificate_sends_nothing(server: Server, tmp_path: Path, has_tls: bool) -> None:
    other = make_files(tmp_path / "other").context(ssl.Purpose.SERVER_AUTH) if has_tls else None
    connections = Connections(SECRET, "there", other)
    with pytest.raises(ConnectionLostError) as caught:
        await connections.to(await server.start()).request(b"hi")
    assert not caught.value.was_sent
    await connections.close()
