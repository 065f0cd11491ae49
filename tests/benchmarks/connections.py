"""What a request over a direct connection costs, with nothing behind it: `python -m tests.benchmarks.connections`.

The server is a process of its own and sends back what it gets. Both sides run uvloop, as Ray's processes do.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvloop

from runtime.transport.endpoint import Endpoint
from runtime.transport.io.channel import Channel
from runtime.transport.io.connections import Channels
from runtime.transport.io.server import Server

SECRET = b"of this benchmark"
NODE = "here"
MESSAGE = bytes(200)
AT_ONCE = 256


class Costs(NamedTuple):
    """Of one kind of socket: seconds of a call and back, calls a second with `AT_ONCE` of them in flight."""

    call_s: float
    calls_a_second: float


async def measure(channel: Channel, calls: int) -> Costs:
    """Make so many calls one after the other, and so many at once."""
    await channel.request(MESSAGE)
    began_s = time.perf_counter()
    for _ in range(calls):
        await channel.request(MESSAGE)
    call_s = (time.perf_counter() - began_s) / calls

    async def worker() -> None:
        for _ in range(calls // AT_ONCE):
            await channel.request(MESSAGE)

    began_s = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return Costs(call_s, calls // AT_ONCE * AT_ONCE / (time.perf_counter() - began_s))


async def serve(folder: str) -> None:
    """Print where this process listens, and send requests back."""

    async def handler(raw: bytes, slot: int) -> bytes:
        return raw

    server = Server(handler, SECRET, NODE, Path(folder), "127.0.0.1")
    print(msgspec.msgpack.encode(await server.start()).hex(), flush=True)
    await asyncio.Event().wait()


async def report(endpoint: Endpoint, calls: int) -> None:
    """Print the costs of both kinds of socket, three times each: how far they differ says how quiet the machine is."""
    for node in (NODE, "elsewhere"):
        connections = Channels(SECRET, node)
        for _ in range(3):
            costs = await measure(connections.to(endpoint), calls)
            kind = "Unix socket" if node == NODE else "TCP"
            print(f"{kind}: {costs.call_s * 1e6:.1f} us a call, {costs.calls_a_second:,.0f} calls/s with {AT_ONCE} in flight")
        await connections.close()


def main(calls: int = 40_000) -> None:
    """Start the server, and report."""
    with tempfile.TemporaryDirectory(prefix="rg") as folder:
        command = [sys.executable, "-m", "tests.benchmarks.connections", f"{folder}/direct"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                endpoint = msgspec.msgpack.decode(bytes.fromhex(server.stdout.readline()), type=Endpoint)
                uvloop.run(report(endpoint, calls))
            finally:
                server.kill()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1])) if len(sys.argv) > 1 else main()
