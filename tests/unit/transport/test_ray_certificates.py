"""Where Ray's own TLS is switched on, connections between nodes use the same certificates. Real sockets, without Ray.

Direct connections over TLS: the same requests, and certificates of one authority on both sides.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import ray
from cryptography import x509

from actors.errors import ClusterError
from runtime.cluster.transport.tls import is_named, ray_tls
from runtime.cluster.transport.wires import Listener, WireOptions, Wires
from runtime.transport.endpoint import Endpoint
from runtime.transport.io.calls import ConnectionLostError
from runtime.transport.io.channel import Channels
from runtime.transport.io.server import Server
from runtime.transport.protocol.frames import MAX_PAYLOAD
from tests.support.fixtures.direct_fixture import SECRET, Recorder, answer
from tests.support.servers.certificates import HOST, Authority, Files
from tests.support.servers.cutting_proxy import CuttingProxy

DIRECT = WireOptions("direct", b"s" * 32)
TLS_HANDSHAKE = 0x16
SECRET_WORD = b"this is for no other eyes"
VARIABLES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


class Handle:
    """Stands in for Ray's handle of an actor whose process listens at an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.endpoint = SimpleNamespace(remote=self._say)
        self.receive = SimpleNamespace(remote=self._receive)

    async def _say(self) -> Endpoint:
        return self._endpoint

    async def _receive(self, raw: bytes) -> bytes:
        return b"over Ray"


class Nodes:
    """Processes on different nodes, each with its environment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._wires: list[Wires] = []
        self._listeners: list[Listener] = []
        self._proxies: list[CuttingProxy] = []
        self._number = 0
        self.got: list[bytes] = []
        self.folder = Path(tempfile.mkdtemp(prefix="rg"))
        monkeypatch.setattr(tempfile, "tempdir", str(self.folder))
        monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: HOST)

    def enter(self, variables: dict[str, str], *, node: str = "") -> None:
        """Be a process on a node, by default on one of its own."""
        self._number += 1
        name = node or f"node-{self._number}"
        for variable in ("RAY_USE_TLS", *VARIABLES):
            self._patch.delenv(variable, raising=False)
        for variable, value in variables.items():
            self._patch.setenv(variable, value)
        context = SimpleNamespace(get_node_id=lambda: name)
        self._patch.setattr(ray, "get_runtime_context", lambda: context)

    def listener(self) -> Listener:
        """Has this process listen."""
        self._listeners.append(Listener(DIRECT, self._receive))
        return self._listeners[-1]

    async def listen(self) -> Endpoint:
        """Have this process listen."""
        endpoint = await self.listener().endpoint()
        assert endpoint is not None
        return endpoint

    async def _receive(self, raw: bytes, slot: int) -> bytes:
        self.got.append(raw)
        return b"direct"

    async def proxy(self, endpoint: Endpoint) -> CuttingProxy:
        """Something on the way to a TCP port, that records what it carries."""
        proxy = CuttingProxy(msgspec.structs.replace(endpoint, path=""))
        self._proxies.append(proxy)
        await proxy.start()
        return proxy

    async def send(self, endpoint: Endpoint, raw: bytes = SECRET_WORD) -> bytes:
        """Send a message from this process."""
        wires = Wires(DIRECT)
        self._wires.append(wires)
        handle: Any = Handle(endpoint)
        return await wires.link(handle, "agent 'a'").send(raw)

    async def close(self) -> None:
        for wires in self._wires:
            await wires.close()
        for proxy in self._proxies:
            await proxy.close()
        for listener in self._listeners:
            await listener.close()
        shutil.rmtree(self.folder)


@pytest.fixture
async def nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Nodes]:
    """After `tmp_path`, which uses the same folder of temporary files."""
    nodes = Nodes(monkeypatch)
    yield nodes
    await nodes.close()


@pytest.fixture
def own(tmp_path: Path) -> Authority:
    """The authority of the cluster."""
    return Authority(tmp_path / "own")


async def test_messages_between_nodes_are_encrypted_with_rays_certificates(nodes: Nodes, own: Authority) -> None:
    nodes.enter(own.issue(label="server").variables())
    proxy = await nodes.proxy(await nodes.listen())
    nodes.enter(own.issue(label="client").variables())
    assert await nodes.send(proxy.endpoint) == b"direct"
    assert nodes.got == [SECRET_WORD]
    (recorded,) = proxy.recorded
    assert (recorded.up[0], recorded.down[0]) == (TLS_HANDSHAKE, TLS_HANDSHAKE)
    assert SECRET_WORD not in recorded.up


async def test_without_rays_tls_messages_between_nodes_are_not_encrypted(nodes: Nodes, own: Authority) -> None:
    files = own.issue().variables()
    nodes.enter(files | {"RAY_USE_TLS": "0"})
    proxy = await nodes.proxy(await nodes.listen())
    nodes.enter(files | {"RAY_USE_TLS": "0"})
    assert await nodes.send(proxy.endpoint) == b"direct"
    assert SECRET_WORD in proxy.recorded[0].up


async def test_on_one_node_messages_take_the_unix_socket_without_tls(nodes: Nodes, own: Authority) -> None:
    nodes.enter(own.issue().variables(), node="here")
    endpoint = await nodes.listen()
    proxy = CuttingProxy(endpoint)
    assert await nodes.send(await proxy.start()) == b"direct"
    assert SECRET_WORD in proxy.recorded[0].up
    await proxy.close()


async def test_a_client_without_a_certificate_is_refused(nodes: Nodes, own: Authority, caplog: pytest.LogCaptureFixture) -> None:
    nodes.enter(own.issue().variables())
    endpoint = await nodes.listen()
    nodes.enter({})
    assert await nodes.send(endpoint) == b"over Ray"
    assert "messages go over Ray" in caplog.text
    # Not even one that has the secret and trusts the authority.
    connections = Channels(DIRECT.secret, "elsewhere", ssl.create_default_context(cafile=own.issue().authority))
    with pytest.raises(ConnectionLostError):
        await connections.to(endpoint).request(b"hi")
    assert nodes.got == []
    await connections.close()


@pytest.mark.parametrize("stranger", ["client", "server"])
async def test_a_certificate_of_another_authority_is_refused_by_either_side(
    nodes: Nodes, own: Authority, tmp_path: Path, stranger: str, caplog: pytest.LogCaptureFixture
) -> None:
    mine, other = own.issue(), Authority(tmp_path / "other").issue()
    # It trusts the cluster's authority itself, so that only the other side can refuse it.
    strange = Files(other.certificate, other.key, mine.authority)
    nodes.enter((strange if stranger == "server" else mine).variables())
    endpoint = await nodes.listen()
    nodes.enter((strange if stranger == "client" else mine).variables())
    assert await nodes.send(endpoint) == b"over Ray"
    assert nodes.got == []
    assert "messages go over Ray" in caplog.text


@pytest.mark.parametrize(
    ("names", "reply"),
    [([x509.DNSName(HOST)], b"direct"), ([x509.DNSName("other.example.com")], b"over Ray"), ([], b"over Ray")],
    ids=["address as a name", "another host", "no host"],
)
async def test_a_server_is_known_by_its_address_as_with_grpc(
    nodes: Nodes, own: Authority, names: list[x509.GeneralName], reply: bytes
) -> None:
    files = own.issue(names).variables()
    nodes.enter(files)
    endpoint = await nodes.listen()
    nodes.enter(files)
    assert await nodes.send(endpoint) == reply


def test_names_stand_for_hosts_as_with_grpc() -> None:
    assert is_named("10.0.0.1", ["10.0.0.1"])
    assert is_named("fe80::1", ["FE80:0:0:0:0:0:0:1"])
    assert is_named("Node.example.com", ["node.Example.com"])
    assert is_named("node.example.com", ["*.example.com"])
    assert not is_named("a.node.example.com", ["*.example.com"])
    assert not is_named("10.0.0.1", ["*.0.0.1", "10.0.0.2", "*"])
    assert not is_named("localhost", ["*.", ""])
    assert not is_named("", [""])


@pytest.mark.parametrize("value", ["1", "true", "True"])
def test_tls_is_switched_on_as_ray_reads_it(nodes: Nodes, own: Authority, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes.enter(own.issue().variables() | {"RAY_USE_TLS": value})
    assert ray_tls() is not None
    for off in ("0", "", "false"):
        monkeypatch.setenv("RAY_USE_TLS", off)
        assert ray_tls() is None


@pytest.mark.parametrize("variable", VARIABLES)
async def test_a_file_that_is_missing_is_named_with_its_variable(
    nodes: Nodes, own: Authority, tmp_path: Path, variable: str
) -> None:
    missing = str(tmp_path / "missing.pem")
    nodes.enter(own.issue().variables() | {variable: missing})
    sentence = f"{variable} names the file {missing}, which cannot be read: No such file or directory"
    with pytest.raises(ClusterError, match=sentence):
        Wires(DIRECT)
    with pytest.raises(ClusterError, match=sentence):
        await nodes.listener().endpoint()


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_that_is_missing_is_named(
    nodes: Nodes, own: Authority, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes.enter(own.issue().variables())
    monkeypatch.delenv(variable)
    with pytest.raises(ClusterError, match=f"RAY_USE_TLS is set, and {variable} is not"):
        Wires(DIRECT)


def test_files_that_are_no_certificates_are_named(nodes: Nodes, own: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other").issue()
    empty = tmp_path / "empty"
    empty.touch()
    for changed, sentence in [
        ({"RAY_TLS_CA_CERT": str(empty)}, f"RAY_TLS_CA_CERT names the file {empty}, which is no certificate"),
        ({"RAY_TLS_SERVER_CERT": str(empty)}, f"RAY_TLS_SERVER_CERT names the file {empty} and"),
        ({"RAY_TLS_SERVER_KEY": str(other.key)}, f"RAY_TLS_SERVER_KEY names {other.key}, which are no certificate and its key"),
    ]:
        nodes.enter(own.issue().variables() | changed)
        with pytest.raises(ClusterError, match=sentence):
            Wires(DIRECT)


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
