"""Agents that an update has changed live in processes where no code of an older version was loaded."""

from __future__ import annotations

import asyncio

import pytest

from actors.errors import PlacementError
from actors.layers.trees.process_groups import Replica
from runtime.cluster.processes.pool import Pool
from tests.support.fixtures.pool_fixture import HI, FakeCluster, process_of


async def said(pool: Pool, *replicas: Replica) -> list[str]:
    return [(await (await pool.link(replica)).send(HI)).decode() for replica in replicas]


async def test_changed_agents_never_share_a_process_with_those_before(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=2)
    assert await said(pool, Replica("a"), Replica("b"), Replica("c")) == ["a", "b", "c"]
    new = Replica("a", mark="v2"), Replica("b", mark="v2")
    assert await said(pool, *new) == ["a@v2", "b@v2"]
    assert await said(pool, Replica("a", mark="v3")) == ["a@v3"]
    for agents in cluster.agents_by_process():
        assert len({agent.partition("@")[2] for agent in agents}) == 1
    # The old ones live on, for turns that began with them.
    assert await said(pool, Replica("a"), *new) == ["a", "a@v2", "b@v2"]


async def test_a_process_that_was_used_is_no_spare_for_changed_agents(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=4, spares=1)
    (await pool.link(Replica("a"))).used_s -= 10_000
    pool.passivation.passivate_idle()
    await said(pool, Replica("a", mark="v2"))
    hosts = [process for process in cluster.processes if "a@v2" in process.agents.values()]
    assert [sorted(host.slots) for host in hosts] == [[0]]


async def test_a_spare_that_has_loaded_code_takes_agents_of_that_version_only(cluster: FakeCluster) -> None:
    pool = await with_loaded_spare(cluster)
    [loaded] = cluster.processes
    assert process_of(await pool.link(Replica("a", mark="v2"))) is not loaded
    assert process_of(await pool.link(Replica("b"))) is loaded


async def test_spares_without_code_take_the_place_of_those_that_have_loaded_some(cluster: FakeCluster) -> None:
    pool = await with_loaded_spare(cluster)
    [loaded] = cluster.processes
    pool.spares.replace_loaded()
    await pool.spares_started()
    assert loaded not in cluster.processes
    [fresh] = cluster.processes
    assert process_of(await pool.link(Replica("a", mark="v2"))) is fresh


async def test_an_agent_whose_code_cannot_be_loaded_says_so_when_it_is_needed(cluster: FakeCluster) -> None:
    cluster.broken = {"a"}
    pool = await with_loaded_spare(cluster)
    [spare] = cluster.processes
    assert spare.loaded == []
    assert await said(pool, Replica("b")) == ["b"]
    assert process_of(await pool.link(Replica("b"))) is spare
    with pytest.raises(PlacementError):
        await pool.link(Replica("a"))


async def test_a_spare_that_is_lost_while_it_loads_code_is_replaced(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=4, spares=1)
    pool.start_spares()
    await pool.spares_started()
    [lost] = cluster.processes
    lost.is_dead = True
    await pool.spares.load("a")
    assert await said(pool, Replica("a")) == ["a"]
    assert lost not in cluster.processes


async def with_loaded_spare(cluster: FakeCluster) -> Pool:
    """A pool with one spare that has loaded the code of agent `a`, if that is not broken."""
    pool = cluster.pool(max_processes=4, spares=1)
    pool.start_spares()
    await pool.spares_started()
    await pool.spares.load("a")
    # What has loaded code loads no other.
    await pool.spares.load("b")
    assert all(process.loaded in ([], ["a"]) for process in cluster.processes)
    return pool


async def test_agents_that_are_needed_no_more_leave_and_their_processes_end(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=4)
    await said(pool, Replica("a"), Replica("b"), Replica("a", mark="v2"))
    cluster.gate = asyncio.Event()
    running = asyncio.create_task(said(pool, Replica("b")))
    await asyncio.sleep(0)
    pool.passivation.retain(lambda replica: replica.mark == "v2")
    # One that is at work stays.
    assert sorted(str(replica) for replica, _ in pool.table.live()) == ["a@v2", "b"]
    cluster.gate.set()
    assert await running == ["b"]
    pool.passivation.retain(lambda replica: replica.mark == "v2")
    assert [str(replica) for replica, _ in pool.table.live()] == ["a@v2"]
    # Processes are killed in a callback.
    await asyncio.sleep(0)
    assert cluster.agents_by_process() == [["a@v2"]]
