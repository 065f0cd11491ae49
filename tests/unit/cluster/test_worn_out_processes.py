"""A process whose threads do not come back takes no more agents; its runs go on, and it ends with the last of them."""

from __future__ import annotations

import asyncio

import pytest

from actors.errors import ActorLostError
from actors.layers.trees.process_groups import Replica
from runtime.cluster.processes.pool import Pool
from runtime.cluster.processes.worker_process import HostedAgent
from tests.support.fixtures.pool_fixture import FakeCluster, FakeProcess, group_of, process_of

HI = b"hi"
A = Replica("a")


async def begin(pool: Pool, replica: Replica = A) -> tuple[HostedAgent, asyncio.Task[bytes]]:
    """Begin a run, which waits at the cluster's gate."""
    agent = await pool.link(replica)
    before = runs(process_of(agent))
    run = asyncio.create_task(agent.send(HI))
    # The fake process does not notify when the run has come.
    while runs(process_of(agent)) == before:  # noqa: ASYNC110
        await asyncio.sleep(0)
    return agent, run


def runs(process: FakeProcess) -> int:
    return sum(process.runs.values())


async def test_its_run_goes_on_and_every_other_one_has_another_process() -> None:
    cluster = FakeCluster()
    cluster.gate = asyncio.Event()
    pool = cluster.pool(max_processes=1)
    old, first = await begin(pool)
    pool.drain(process_of(old).name, "it is worn out")
    new, second = await begin(pool)
    assert process_of(new) is not process_of(old)
    assert [link for _, link in pool.table.live()] == [new.idle_link, old.idle_link]
    assert pool.table.counts()["hosts"] == 2
    assert pool.table.counts()["replaced"] == 1
    # A run in it can still be stopped.
    third = asyncio.create_task(old.send(HI))
    cluster.gate.set()
    assert list(await asyncio.gather(first, second, third)) == [b"a"] * 3
    assert cluster.processes == {process_of(new)}
    with pytest.raises(ActorLostError):
        await old.send(HI)
    assert await pool.link(A) is new
    await pool.close()


async def test_one_without_a_run_ends_at_once() -> None:
    cluster = FakeCluster()
    pool = cluster.pool()
    old = await pool.link(A)
    assert await old.send(HI) == b"a"
    pool.drain(process_of(old).name, "it is worn out")
    await asyncio.sleep(0)
    assert not cluster.processes
    assert process_of(await pool.link(A)) is not process_of(old)
    await pool.close()


async def test_an_agent_that_was_moving_in_moves_in_elsewhere() -> None:
    cluster = FakeCluster()
    cluster.gate = asyncio.Event()
    pool = cluster.pool(max_processes=1)
    old, run = await begin(pool)
    cluster.pauses = [50]
    moving = asyncio.create_task(pool.link(Replica("b")))
    await asyncio.sleep(0)
    pool.drain(process_of(old).name, "it is worn out")
    assert process_of(await moving) is not process_of(old)
    cluster.gate.set()
    assert await run == b"a"
    await pool.close()
    assert not cluster.processes


async def test_one_with_resources_of_its_own_is_ended_for_the_next_one_that_needs_them() -> None:
    cluster = FakeCluster()
    cluster.gate = asyncio.Event()
    pool = cluster.pool()
    old = await pool.link(A, group_of("a"))
    run = asyncio.create_task(old.send(HI))
    await asyncio.sleep(0)
    pool.drain(process_of(old).name, "it is worn out")
    cluster.gate.set()
    with pytest.raises(ActorLostError):
        await run
    assert process_of(await pool.link(A, group_of("a"))) is not process_of(old)
    await pool.close()


async def test_one_that_does_not_answer_either_is_ended_with_its_runs() -> None:
    cluster = FakeCluster()
    cluster.gate = asyncio.Event()
    pool = cluster.pool()
    old, run = await begin(pool)
    pool.drain(process_of(old).name, "it is worn out")
    new = await pool.link(A)
    pool.table.drop_link(old)
    await asyncio.sleep(0)
    assert cluster.processes == {process_of(new)}
    cluster.gate.set()
    with pytest.raises(ActorLostError):
        await run
    await pool.close()


async def test_closing_ends_it_too() -> None:
    cluster = FakeCluster()
    pool = cluster.pool()
    cluster.gate = asyncio.Event()
    old, run = await begin(pool)
    pool.drain(process_of(old).name, "it is worn out")
    cluster.gate.set()
    await pool.close()
    await asyncio.gather(run, return_exceptions=True)
    assert not cluster.processes


async def test_a_process_that_is_gone_cannot_be_replaced() -> None:
    cluster = FakeCluster()
    pool = cluster.pool()
    old = await pool.link(A)
    pool.drain("another", "it is worn out")
    pool.drain(process_of(old).name, "it is worn out")
    pool.drain(process_of(old).name, "it is worn out")
    assert pool.table.counts()["replaced"] == 1
    await pool.close()
