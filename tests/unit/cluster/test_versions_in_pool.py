"""Agents that an update has changed live in processes where no code of an older version was loaded."""

from __future__ import annotations

import asyncio

from actors.definitions.tree.process_groups import Replica
from runtime.cluster.processes.pool import Pool
from tests.support.fixtures.pool_fixture import FakeCluster

HI = b"hi"


async def said(pool: Pool, *replicas: Replica) -> list[str]:
    return [(await (await pool.link(replica)).send(HI)).decode() for replica in replicas]


async def test_changed_agents_never_share_a_process_with_those_before() -> None:
    cluster = FakeCluster()
    pool = cluster.pool(max_processes=2)
    assert await said(pool, Replica("a"), Replica("b"), Replica("c")) == ["a", "b", "c"]
    new = Replica("a", mark="v2"), Replica("b", mark="v2")
    assert await said(pool, *new) == ["a@v2", "b@v2"]
    assert await said(pool, Replica("a", mark="v3")) == ["a@v3"]
    for agents in cluster.agents_by_process():
        assert len({agent.partition("@")[2] for agent in agents}) == 1
    # The old ones live on, for turns that began with them.
    assert await said(pool, Replica("a"), *new) == ["a", "a@v2", "b@v2"]
    await pool.close()


async def test_a_process_that_was_used_is_no_spare_for_changed_agents() -> None:
    cluster = FakeCluster()
    pool = cluster.pool(max_processes=4, spares=1)
    (await pool.link(Replica("a"))).used_s -= 10_000
    pool.passivate_idle()
    await said(pool, Replica("a", mark="v2"))
    hosts = [process for process in cluster.processes if "a@v2" in process.agents.values()]
    assert [sorted(host.slots) for host in hosts] == [[0]]
    await pool.close()


async def test_agents_that_are_needed_no_more_leave_and_their_processes_end() -> None:
    cluster = FakeCluster()
    pool = cluster.pool(max_processes=4)
    await said(pool, Replica("a"), Replica("b"), Replica("a", mark="v2"))
    cluster.gate = asyncio.Event()
    running = asyncio.create_task(said(pool, Replica("b")))
    await asyncio.sleep(0)
    pool.retain(lambda replica: replica.mark == "v2")
    # One that is at work stays.
    assert sorted(str(replica) for replica, _ in pool.live()) == ["a@v2", "b"]
    cluster.gate.set()
    assert await running == ["b"]
    pool.retain(lambda replica: replica.mark == "v2")
    assert [str(replica) for replica, _ in pool.live()] == ["a@v2"]
    # Processes are killed in a callback.
    await asyncio.sleep(0)
    assert cluster.agents_by_process() == [["a@v2"]]
    await pool.close()
