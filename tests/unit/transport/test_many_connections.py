"""Connections that come and go leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest

from tests.support.fixtures.direct_fixture import DirectFixture, Recorder, descriptors, until
from tests.support.servers.cutting_proxy import Cut

AT_ONCE = 20

LEAST_GROWTH_BYTES = 200_000
"""What a run may leave: caches of the interpreter. 500 connections that left 1 kB each would be more."""


async def come_and_go(direct: DirectFixture, times: int) -> None:
    async def handler(raw: bytes, slot: int) -> bytes:
        return raw

    server = direct.server(handler)
    endpoint = await server.start()

    async def worker() -> None:
        for number in range(times // AT_ONCE):
            connections = direct.connections()
            assert await connections.to(endpoint).request(b"hi") == b"hi"
            await connections.close()
            if number % 10 == 0:
                # One that leaves in the middle of the handshake.
                _, writer = await direct.dial(endpoint)
                writer.write(b"rgd")
                writer.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
        await until(lambda: server.statistics().clients == server.statistics().unproven == 0)
        direct.forget_connections()
        gc.collect()

    # What is made once is made before.
    await all_of_them()
    descriptors_before = descriptors()
    tracemalloc.start()
    try:
        await all_of_them()
        before = tracemalloc.get_traced_memory()[0]
        await all_of_them()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < LEAST_GROWTH_BYTES
    await until(lambda: descriptors() <= descriptors_before + 2)


@pytest.mark.full
async def test_500_connections_leave_nothing_behind(direct: DirectFixture) -> None:
    await come_and_go(direct, 500)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_10_000_connections_leave_nothing_behind(direct: DirectFixture) -> None:
    await come_and_go(direct, 10_000)


async def test_reconnects_leave_no_descriptors_behind(direct: DirectFixture) -> None:
    proxy = await direct.proxy(await direct.serve(Recorder()), [Cut(down=150)] * 1000)
    channel = direct.channel(proxy.endpoint)
    await channel.request(b"first")
    before = descriptors()
    for number in range(200):
        assert await channel.request(b"%d" % number) == b"re: %d" % number
    assert channel.reconnects >= 50
    await until(lambda: descriptors() <= before + 4)
