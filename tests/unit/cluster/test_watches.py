"""A process notices changes of the cluster's nodes, and that Ray's control service is away or back: without Ray."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
import ray

from actors.interfaces.telemetry import LOGGER
from runtime.cluster.cluster_watch import ClusterWatch, Nodes, cluster_nodes
from runtime.cluster.control_service_watch import ControlServiceWatch
from runtime.cluster.rules.nodes import DrainNotice, Node

GIB = 1024**3
HEAD = Node("head", {"CPU": 0, "memory": 8 * GIB}, {}, "1", "10.0.0.1")
WORKER = Node("worker", {"CPU": 4, "memory": 16 * GIB}, {"zone": "a"}, "2", "10.0.0.2")


class Looks:
    """Reads what a test says next, when it says it."""

    def __init__(self) -> None:
        self._next: queue.SimpleQueue[Nodes | Exception] = queue.SimpleQueue()
        self.threads: list[int] = []
        self.is_looking = threading.Event()

    def show(self, *seen: Node) -> None:
        self._next.put(seen)

    def fail(self) -> None:
        self._next.put(ConnectionError("the control service is away"))

    def __call__(self) -> Nodes:
        self.threads.append(threading.get_ident())
        self.is_looking.set()
        seen = self._next.get()
        if isinstance(seen, Exception):
            raise seen
        return seen


async def test_subscribers_get_each_change_on_their_loop() -> None:
    looks = Looks()
    looks.show(HEAD, WORKER)
    watch = ClusterWatch(looks, every_s=0.001)
    assert watch.now == (HEAD, WORKER)
    told: asyncio.Queue[Nodes] = asyncio.Queue()
    watch.subscribe(told.put_nowait)
    leaving = WORKER._replace(drain=DrainNotice(1234.5))
    looks.show(HEAD, WORKER)
    looks.fail()
    looks.show(HEAD, leaving)
    assert await told.get() == (HEAD, leaving)
    assert watch.now == (HEAD, leaving)
    looks.show(HEAD)
    assert await told.get() == (HEAD,)
    watch.close()
    looks.show(HEAD)
    assert told.empty()
    # The first look was at the first use.
    assert looks.threads[0] == threading.get_ident()
    assert threading.get_ident() not in looks.threads[1:]


async def test_one_that_is_closed_tells_nothing_of_a_look_that_was_under_way() -> None:
    looks = Looks()
    looks.show(HEAD)
    watch = ClusterWatch(looks, every_s=0.001)
    assert watch.now == (HEAD,)
    looks.is_looking.clear()
    told: list[Nodes] = []
    before = threading.enumerate()
    watch.subscribe(told.append)
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "nodes" and thread not in before)
    await asyncio.to_thread(looks.is_looking.wait)
    watch.close()
    looks.show(HEAD, WORKER)
    await asyncio.to_thread(thread.join)
    assert told == []


async def test_at_rest_a_look_costs_next_to_nothing() -> None:
    numbers = count()
    watch = ClusterWatch(lambda: (HEAD._replace(resources={"CPU": next(numbers) // 1_000}),) * 100, every_s=0.0)
    changed = asyncio.Event()
    assert len(watch.now) == 100
    began_s = time.process_time()
    watch.subscribe(lambda _: changed.set())
    await changed.wait()
    watch.close()
    assert (time.process_time() - began_s) / 1_000 < 0.01


def test_a_process_that_is_not_connected_starts_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests of this process may have a Ray.
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConnectionError, match="connected with no Ray"):
        cluster_nodes()


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
