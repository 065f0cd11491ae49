"""Agents move when nodes come and go: without Ray, in processes that are fakes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import ActorLostError, ClusterError
from actors.layers.trees.process_groups import Replica
from actors.messages.codec import encode
from actors.messages.event import now_s
from actors.messages.protocol.base import Stop
from runtime.cluster.processes import moving
from runtime.cluster.processes.pool import Pool
from runtime.cluster.rules.nodes import DrainNotice, Node, next_move
from tests.support.fixtures.direct_fixture import until
from tests.support.fixtures.pool_fixture import HI, FakeCluster, group_of, limits, process_of, say
from tests.support.tries import tries

MEMORY = 64 * 1024**3


def node(name: str, cpus: float = 1, drain: DrainNotice | None = None) -> Node:
    return Node(name, {"CPU": cpus, "memory": MEMORY}, {}, name, drain=drain)


def leaving(name: str, in_s: float | None = None) -> Node:
    return node(name, drain=DrainNotice(None if in_s is None else now_s() + in_s))


def by_node(cluster: FakeCluster) -> Counter[str]:
    """Agents on each node."""
    return Counter(process.node for process in cluster.processes for _ in process.agents)


async def pool_on(cluster: FakeCluster, nodes: Sequence[Node], agents: str, max_processes: int = 8) -> Pool:
    """A pool on these nodes in which agents live."""
    pool = cluster.pool(max_processes=max_processes, agents=len(agents))
    pool.adapt(limits(max_processes, agents=len(agents)), nodes)
    for agent in agents:
        await say(pool, agent)
    return pool


async def test_processes_start_on_all_nodes_that_have_cpus(cluster: FakeCluster) -> None:
    await pool_on(cluster, [node("head", 0), node("a"), node("b", 2)], "uvwxyz")
    assert by_node(cluster) == {"a": 2, "b": 4}


async def test_a_node_that_joins_gets_its_share_of_idle_and_of_busy_agents(cluster: FakeCluster) -> None:
    pool = await pool_on(cluster, [node("a")], "uvwxyz")
    cluster.gate = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(say(pool, agent)) for agent in "uvw"]
        await until(lambda: cluster.runs() == 3)
        pool.adapt(limits(8, agents=6), [node("a"), node("b")])
        await until(lambda: by_node(cluster)["b"] == 3)
        cluster.gate.set()
    assert [run.result() for run in runs] == list("uvw")
    await until(lambda: by_node(cluster) == {"a": 3, "b": 3})
    started = cluster.started
    assert [await say(pool, agent) for agent in "uvwxyz"] == list("uvwxyz")
    assert (cluster.started, cluster.interrupted) == (started, 0)
    # The three that have moved were there before a message needed them.
    assert pool.table.counts()["activations"] == 9


async def test_agents_side_by_side_spread_over_processes_that_may_start_now(cluster: FakeCluster) -> None:
    pool = await pool_on(cluster, [node("a")], "uvwxyz", max_processes=2)
    assert [len(each) for each in cluster.agents_by_process()] == [3, 3]
    pool.adapt(limits(6, agents=6), [node("a"), node("b", 2)])
    assert [await say(pool, agent) for agent in "uvwxyz"] == list("uvwxyz")
    await until(lambda: by_node(cluster) == {"a": 2, "b": 4})
    assert [len(each) for each in cluster.agents_by_process()] == [1] * 6


async def test_agents_of_a_node_that_is_lost_live_on_another_one_before_ray_notices(cluster: FakeCluster) -> None:
    pool = await pool_on(cluster, [node("a"), node("b")], "wxyz")
    links = {agent: await pool.link(Replica(agent)) for agent in "wxyz"}
    gone = [agent for agent, link in links.items() if process_of(link).node == "a"]
    for agent in gone:
        cluster.lose(process_of(links[agent]))
    for agent in gone:
        pool.table.drop_link(links[agent])
        assert await say(pool, agent) == agent
    assert by_node(cluster) == {"b": 4}


async def test_a_node_that_is_about_to_leave_is_left_while_its_runs_go_on(cluster: FakeCluster) -> None:
    pool = await pool_on(cluster, [node("a"), node("b")], "wxyz")
    before = {process for process in cluster.processes if process.node == "a"}
    cluster.gate = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(say(pool, agent)) for agent in "wxyz"]
        await until(lambda: cluster.runs() == 4)
        pool.adapt(limits(8, agents=4), [leaving("a", 60), node("b")])
        await until(lambda: by_node(cluster)["b"] == 4)
        # The next run of each has its place.
        links = [await pool.link(Replica(agent)) for agent in "wxyz"]
        assert {process_of(link).node for link in links} == {"b"}
        assert {run for run in runs if run.done()} == set()
        assert before <= cluster.processes
        cluster.gate.set()
    assert [run.result() for run in runs] == list("wxyz")
    await until(lambda: not before & cluster.processes)
    assert cluster.interrupted == 0
    # So that it hands on what it has logged.
    assert {process.last for process in before} == {encode(Stop())}


async def test_agents_that_were_not_used_lately_are_put_to_sleep_instead(cluster: FakeCluster) -> None:
    pool = await pool_on(cluster, [node("a")], "xyz")
    for agent in "xyz":
        (await pool.link(Replica(agent))).used_s -= moving.ACTIVE_S
    pool.adapt(limits(8, agents=3), [leaving("a", 60), node("b")])
    await until(lambda: not cluster.processes)
    assert cluster.started == 3
    assert await say(pool, "x") == "x"
    assert by_node(cluster) == {"b": 1}


async def test_a_process_with_resources_of_its_own_moves_as_well(cluster: FakeCluster) -> None:
    pool = cluster.pool()
    pool.adapt(limits(2), [node("a")])
    link = await pool.link(Replica("painter"), group_of("painter"))
    process = process_of(link)
    link.worker.node = "a"
    cluster.free.set()
    cluster.gate = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        run = group.create_task(link.send(HI))
        await until(lambda: cluster.runs() == 1)
        pool.adapt(limits(2), [leaving("a", 60), node("b")])
        await until(lambda: cluster.started == 2)
        assert not process.is_dead
        cluster.gate.set()
    assert run.result() == b"painter"
    await until(lambda: process.is_dead)
    assert cluster.interrupted == 0
    assert process_of(await pool.link(Replica("painter"), group_of("painter"))).number == 2


async def test_a_process_stays_that_only_evens_out_the_load_and_finds_no_room_elsewhere(cluster: FakeCluster) -> None:
    pool = await pool_on(cluster, [node("a")], "xyz")
    tried: list[str] = []

    async def start(_: object, where: str = "") -> None:
        tried.append(where)
        raise ClusterError("there is no room")

    cluster.start = start  # type: ignore[assignment, method-assign]
    pool.adapt(limits(8, agents=3), [node("a"), node("b")])
    await until(lambda: len(tried) > 1)
    assert set(tried) == {"b"}
    assert [await say(pool, agent) for agent in "xyz"] == list("xyz")
    assert by_node(cluster) == {"a": 3}


async def test_where_processes_claim_resources_they_only_leave_and_never_even_out(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=8, agents=3, claims=True)
    for agent in "xyz":
        (await pool.link(Replica(agent))).worker.node = "a"
    pool.adapt(limits(8, agents=3, claims=True), [node("a"), node("b")])
    for _ in range(100):
        await asyncio.sleep(0)
    assert cluster.started == 3
    pool.adapt(limits(8, agents=3, claims=True), [leaving("a", 60), node("b")])
    await until(lambda: cluster.started == 6 and len(cluster.processes) == 3)
    assert [await say(pool, agent) for agent in "xyz"] == list("xyz")


async def test_a_run_that_takes_too_long_is_ended_before_its_node_is_gone(cluster: FakeCluster) -> None:
    pool = await pool_on(cluster, [node("a"), node("b")], "x")
    (process,) = cluster.processes
    cluster.gate = asyncio.Event()
    run = asyncio.create_task(say(pool, "x"))
    await until(lambda: cluster.runs() == 1)
    pool.adapt(limits(8, agents=1), [leaving(process.node, moving.BEFORE_DEADLINE_S + 0.2), node("c")])
    await until(lambda: process.is_dead)
    cluster.gate.set()
    with pytest.raises(ActorLostError):
        await run
    assert await say(pool, "x") == "x"
    assert by_node(cluster) == {"c": 1}
    await pool.close()


Step = st.one_of(
    st.tuples(st.just("come"), st.integers(1, 3)),
    st.tuples(st.just("drain"), st.integers(0, 5)),
    st.tuples(st.just("gone"), st.just(0)),
    st.tuples(st.just("say"), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.integers(1, 12)),
)


@settings(max_examples=tries(60), deadline=None)
@given(steps=st.lists(Step, max_size=40), most=st.integers(1, 12), pauses=st.lists(st.integers(0, 3), max_size=30))
def test_whatever_nodes_do_no_run_is_interrupted_and_all_is_even_in_the_end(
    steps: list[tuple[str, int]], most: int, pauses: list[int]
) -> None:
    asyncio.run(_breathe(steps, most, pauses))


async def _breathe(steps: list[tuple[str, int]], most: int, pauses: list[int]) -> None:
    cluster = FakeCluster()
    cluster.pauses = pauses
    nodes = {"n0": node("n0")}
    numbers = count(1)
    pool = await pool_on(cluster, list(nodes.values()), "abc", most)
    runs: list[asyncio.Task[str]] = []
    for kind, number in steps:
        if kind == "come":
            name = f"n{next(numbers)}"
            nodes[name] = node(name, number)
        elif kind == "drain":
            name = sorted(nodes)[number % len(nodes)]
            if sum(each.drain is None for each in nodes.values()) > 1:
                nodes[name] = leaving(name)
        elif kind == "gone":
            # Ray keeps a node that drains as long as a process is on it.
            used = {process.node for process in cluster.processes}
            nodes = {name: each for name, each in nodes.items() if each.drain is None or name in used}
        elif kind == "say":
            runs.append(asyncio.create_task(say(pool, "abcdefghij"[number])))
        else:
            for _ in range(number):
                await asyncio.sleep(0)
        if kind in ("come", "drain", "gone"):
            pool.adapt(limits(most), list(nodes.values()))
    for run in runs:
        assert await run

    def counts() -> Counter[str]:
        return Counter(process.node for process in cluster.processes)

    def is_settled() -> bool:
        there = counts()
        return next_move(list(nodes.values()), there) is None and not any(nodes[name].drain for name in there if name in nodes)

    await until(is_settled)
    assert cluster.interrupted == 0
    # The last process that was left ends.
    for _ in range(100):
        await asyncio.sleep(0)
    before, started = counts(), cluster.started
    for _ in range(100):
        await asyncio.sleep(0)
    assert (counts(), cluster.started) == (before, started)
    await pool.close()
    assert not cluster.processes
