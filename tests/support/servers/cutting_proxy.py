"""A proxy between a client and a server of direct connections that cuts connections at chosen bytes."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from runtime.transport.endpoint import Endpoint

CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True)
class Cut:
    """Where one connection is cut.

    Attributes:
        up: after so many bytes from the client; None: nowhere.
        down: after so many bytes from the server; None: nowhere.
    """

    up: int | None = None
    down: int | None = None


NO_CUT = Cut()


@dataclass
class Recorded:
    """The bytes that one connection has carried."""

    up: bytearray = field(default_factory=bytearray)
    down: bytearray = field(default_factory=bytearray)


class CuttingProxy:
    """Carries bytes to an endpoint and back, and cuts.

    Attributes:
        cuts: for the first connection, the second one …; those after the last are not cut.
        recorded: what each connection has carried.
        endpoint: what clients connect to.
    """

    def __init__(self, target: Endpoint, cuts: Sequence[Cut] = ()) -> None:
        self.cuts = list(cuts)
        self.recorded: list[Recorded] = []
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._may_go = asyncio.Event()
        self._may_go.set()

    async def start(self) -> Endpoint:
        if self._target.path:
            path = str(Path(tempfile.mkdtemp(prefix="cut")) / "s")
            self._server: asyncio.AbstractServer = await asyncio.start_unix_server(self._serve, path)
            self.endpoint = msgspec.structs.replace(self._target, path=path)
        else:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            port = self._server.sockets[0].getsockname()[1]
            self.endpoint = msgspec.structs.replace(self._target, port=port)
        return self.endpoint

    def aim(self, target: Endpoint) -> None:
        """Carry the bytes of later connections to another endpoint of the same kind."""
        self._target = target

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Carry nothing and accept connections, as a process that is stopped."""
        self._may_go.clear()
        try:
            yield
        finally:
            self._may_go.set()

    async def close(self) -> None:
        self.stop_listening()
        self.cut_all()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def stop_listening(self) -> None:
        """Refuse connections from here on."""
        self._server.close()
        if self._target.path:
            shutil.rmtree(Path(self.endpoint.path).parent, ignore_errors=True)

    def cut_all(self) -> None:
        """Cut all connections that are open."""
        for writer in self._writers:
            writer.transport.abort()

    def inject(self, data: bytes) -> None:
        """Write bytes of its own to all clients."""
        for writer in self._clients:
            writer.write(data)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cut = self.cuts.pop(0) if self.cuts else NO_CUT
        recorded = Recorded()
        self.recorded.append(recorded)
        if cut.up == 0 or cut.down == 0:
            writer.transport.abort()
            return
        try:
            to_reader, to_writer = await self._open()
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, to_writer}
        self._clients.add(writer)
        up = asyncio.create_task(self._carry(reader, to_writer, cut.up, recorded.up))
        down = asyncio.create_task(self._carry(to_reader, writer, cut.down, recorded.down))
        for task in (up, down):
            self._tasks.add(task)
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        # Closed, not aborted: what came before the cut has to arrive.
        for each in (writer, to_writer):
            each.close()
        for task in (up, down):
            task.cancel()
        await asyncio.wait((up, down))
        self._tasks -= {up, down}
        self._writers -= {writer, to_writer}
        self._clients.discard(writer)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._target.path:
            return await asyncio.open_unix_connection(self._target.path)
        return await asyncio.open_connection(self._target.host, self._target.port)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None, recorded: bytearray
    ) -> None:
        try:
            while limit is None or len(recorded) < limit:
                left = CHUNK_BYTES if limit is None else min(CHUNK_BYTES, limit - len(recorded))
                data = await reader.read(left)
                await self._may_go.wait()
                if not data:
                    return
                recorded += data
                writer.write(data)
                await writer.drain()
        except OSError:
            return
