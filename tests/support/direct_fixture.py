"""Servers and clients of direct connections for tests, on one kind of socket."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from runtime.transport.endpoint import Endpoint
from runtime.transport.io.channel import Channel
from runtime.transport.io.connections import Channels
from runtime.transport.io.server import Server
from runtime.transport.options import DirectOptions
from tests.support.cutting_proxy import Cut, CuttingProxy

SECRET = b"the secret of the deployment"
NODE = "node-1"

DEFAULTS = DirectOptions()


class Recorder:
    """A handler that counts what it gets, and may be held.

    Attributes:
        order: the requests, as they came; and the slots.
        runs: how often each was run.
        gates: requests that wait here for their event.
    """

    def __init__(self) -> None:
        self.order: list[bytes] = []
        self.slots: list[int] = []
        self.runs: Counter[bytes] = Counter()
        self.gates: dict[bytes, asyncio.Event] = {}
        self.finished: list[bytes] = []

    def hold(self, raw: bytes) -> asyncio.Event:
        """Let a request wait until this event is set."""
        return self.gates.setdefault(raw, asyncio.Event())

    async def __call__(self, raw: bytes, slot: int) -> bytes:
        self.order.append(raw)
        self.slots.append(slot)
        self.runs[raw] += 1
        if raw in self.gates:
            await self.gates[raw].wait()
        self.finished.append(raw)
        return answer(raw)


def answer(raw: bytes) -> bytes:
    """What the recorder replies."""
    return b"re: " + raw


def descriptors() -> int:
    """How many files and sockets this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop go on until a condition holds."""
    async with asyncio.timeout(20):
        # Servers and clients do not notify when they have done something in the background.
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


class DirectFixture:
    """Makes servers, clients and proxies, and closes them.

    Args:
        kind: "unix" or "tcp".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        # A path of pytest's own can be too long for a socket.
        self.folder = Path(tempfile.mkdtemp(prefix="rg")) / "direct"
        self._servers: list[Server] = []
        self._connections: list[Channels] = []
        self._proxies: list[CuttingProxy] = []

    def server(self, handler: Callable[[bytes, int], object], options: DirectOptions = DEFAULTS) -> Server:
        """A server that does not listen yet."""
        folder, host = (self.folder, "") if self.kind == "unix" else (None, "127.0.0.1")
        server = Server(handler, SECRET, NODE, folder, host, options=options)  # type: ignore[arg-type]
        self._servers.append(server)
        return server

    async def serve(self, handler: Callable[[bytes, int], object], options: DirectOptions = DEFAULTS) -> Endpoint:
        """A server that listens."""
        return await self.server(handler, options).start()

    def connections(self, options: DirectOptions = DEFAULTS, secret: bytes = SECRET) -> Channels:
        """The connections of a client."""
        made = Channels(secret, NODE if self.kind == "unix" else "node-2", options=options)
        self._connections.append(made)
        return made

    def channel(self, endpoint: Endpoint, options: DirectOptions = DEFAULTS, secret: bytes = SECRET) -> Channel:
        """A client's channel."""
        return self.connections(options, secret).to(endpoint)

    async def proxy(self, target: Endpoint, cuts: Sequence[Cut] = ()) -> CuttingProxy:
        """A proxy that listens."""
        proxy = CuttingProxy(target, cuts)
        self._proxies.append(proxy)
        await proxy.start()
        return proxy

    async def dial(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare stream to an endpoint."""
        if self.kind == "unix":
            return await asyncio.open_unix_connection(endpoint.path)
        return await asyncio.open_connection(endpoint.host, endpoint.port)

    def forget_connections(self) -> None:
        """Hold no connections that the test has closed itself."""
        self._connections.clear()

    async def close(self) -> None:
        """Close everything."""
        for connections in self._connections:
            await connections.close()
        for proxy in self._proxies:
            await proxy.close()
        for server in self._servers:
            await server.close()
        shutil.rmtree(self.folder.parent, ignore_errors=True)
