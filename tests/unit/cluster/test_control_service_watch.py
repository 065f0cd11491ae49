"""A process notices that Ray's control service is away, and that it is back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.interfaces.telemetry import LOGGER
from runtime.cluster.control_service_watch import ControlServiceWatch


class Service:
    """Listens as the control service does, and says nothing. It may be killed, and started again."""

    def __init__(self) -> None:
        self.port = 0
        self.connected = asyncio.Event()
        self._connections: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self.connected.clear()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.append(writer)
        self.connected.set()

    async def kill(self) -> None:
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        """End the connections, as servers do that hear nothing."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self.connected.clear()


@asynccontextmanager
async def service() -> AsyncIterator[Service]:
    made = Service()
    await made.start()
    try:
        yield made
    finally:
        await made.kill()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.deployment_event for record in caplog.records if record.name == LOGGER]  # type: ignore[attr-defined]


async def test_a_service_that_is_killed_is_away_until_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    async with service() as found:
        watch = ControlServiceWatch(f"127.0.0.1:{found.port}")
        await found.connected.wait()
        assert watch.away_s == 0.0
        found.cut()
        await found.connected.wait()
        assert (watch.away_s, told(caplog)) == (0.0, [])
        await found.kill()
        await watch.until_away()
        assert watch.away_s > 0.0
        assert told(caplog) == ["control service away"]
        await found.start()
        await found.connected.wait()
        assert watch.away_s == 0.0
        assert told(caplog) == ["control service away", "control service back"]


async def test_one_that_stays_away_is_given_up_once_and_not_before_its_time() -> None:
    given_up = asyncio.Future[str]()

    async def give_up(reason: str) -> None:
        given_up.set_result(reason)

    async with service() as found:
        watch = ControlServiceWatch(f"127.0.0.1:{found.port}", 0.3, give_up)
        await found.connected.wait()
        await found.kill()
        await watch.until_away()
        assert not given_up.done()
        assert await given_up == f"the control service of the Ray at 127.0.0.1:{found.port} is away"
        assert watch.away_s >= 0.3
        await found.start()
