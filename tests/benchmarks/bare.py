"""Bare connections: frames over a Unix socket between two processes, and nothing that makes them trustworthy.

No secret, no bounds, no retries, and no word when a connection breaks. This is what direct connections are compared with.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from itertools import count
from typing import cast

_HEADER = struct.Struct(">IBQ")
"""Begins every frame: the bytes that follow, the number of the method, the number of the call."""

Method = Callable[[bytes], Awaitable[bytes]]


class _Frames(asyncio.Protocol):
    def __init__(self) -> None:
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        data = self._unread + data
        start = 0
        while len(data) - start >= _HEADER.size:
            length, method, number = _HEADER.unpack_from(data, start)
            begin = start + _HEADER.size
            if len(data) - begin < length:
                break
            start = begin + length
            self.received(method, number, data[begin:start])
        self._unread = data[start:]

    def received(self, method: int, number: int, payload: bytes) -> None:
        raise NotImplementedError

    def write(self, method: int, number: int, payload: bytes) -> None:
        self._transport.write(_HEADER.pack(len(payload), method, number) + payload)


class _Served(_Frames):
    def __init__(self, methods: tuple[Method, ...], running: set[asyncio.Task[None]]) -> None:
        super().__init__()
        self._methods = methods
        self._running = running

    def received(self, method: int, number: int, payload: bytes) -> None:
        task = asyncio.create_task(self._run(method, number, payload))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, method: int, number: int, payload: bytes) -> None:
        self.write(method, number, await self._methods[method](payload))


class BareServer:
    """Runs methods for other processes.

    Args:
        path: of the Unix socket.
        methods: called by their place.
    """

    def __init__(self, path: str, *methods: Method) -> None:
        self._path = path
        self._methods = methods
        self._running: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Served(self._methods, self._running), self._path)


class BareClient(_Frames):
    """Calls the methods of a server."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._numbers = count()
        self._calls: dict[int, asyncio.Future[bytes]] = {}

    async def connect(self) -> None:
        await asyncio.get_running_loop().create_unix_connection(lambda: self, self._path)

    def call(self, method: int, payload: bytes) -> asyncio.Future[bytes]:
        """Call a method and wait for what it returns."""
        number = next(self._numbers)
        reply = self._calls[number] = asyncio.get_running_loop().create_future()
        self.write(method, number, payload)
        return reply

    def close(self) -> None:
        self._transport.close()

    def received(self, method: int, number: int, payload: bytes) -> None:
        self._calls.pop(number).set_result(payload)
