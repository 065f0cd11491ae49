"""What the observer of a cluster's nodes says, and when: without Ray."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from itertools import count

import pytest
import ray

from runtime.cluster.cluster_watch import ClusterWatch, Nodes, cluster_nodes
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
