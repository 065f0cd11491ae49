"""A program that serves direct connections. Its arguments: the folder of its Unix socket, or "" for TCP.

It prints its endpoint as hexadecimal MessagePack, and each request that it runs.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
import uvloop

from runtime.transport.io.server import Server
from tests.support.fixtures.direct_fixture import NODE, SECRET, answer


async def handler(raw: bytes, slot: int) -> bytes:
    """Tell of a request, and answer it."""
    print(raw.decode(), flush=True)
    return answer(raw)


async def main(folder: str) -> None:
    """Serve until the process is killed."""
    server = Server(handler, SECRET, NODE, Path(folder) if folder else None, "" if folder else "127.0.0.1")
    print(msgspec.msgpack.encode(await server.start()).hex(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
