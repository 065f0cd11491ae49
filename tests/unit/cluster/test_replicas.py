"""How many replicas an agent has by the runs under way, which one serves a session, and pools whose processes claim resources."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from actors.definitions.agents import Placement
from actors.errors import ClusterError
from actors.layers.trees.process_groups import SCALED, ProcessGroup, Replica, replica_among, scaled_group
from actors.messages.session import SessionKey
from runtime.cluster.processes.pool import Pool
from runtime.cluster.rules.process_choice import Scale, ScaleLimits, scaled, serving
from tests.support.fixtures.direct_fixture import until
from tests.support.fixtures.pool_fixture import HI, FakeCluster, say

IDLE_S = 60.0
Bounds = st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(1, 50)).map(
    lambda given: ScaleLimits(given[0], given[0] + given[1], given[2], IDLE_S)
)
Loads = st.lists(st.tuples(st.floats(0, 90), st.integers(0, 1_000)), min_size=1)


@given(Bounds, Loads)
def test_there_are_as_many_as_runs_need_within_the_bounds_and_fewer_only_after_a_while(
    limits: ScaleLimits, loads: list[tuple[float, int]]
) -> None:
    scale, now_s = Scale(limits.least, 0.0), 0.0
    needed_in_time: list[tuple[float, int]] = [(0.0, limits.least)]
    for pause_s, runs in loads:
        now_s += pause_s
        before, scale = scale, scaled(scale, limits, runs=runs, now_s=now_s)
        assert limits.least <= scale.replicas <= limits.most
        assert scale.replicas == limits.most or scale.replicas * limits.runs_per_replica >= runs
        needed = min(max(-(-runs // limits.runs_per_replica), limits.least), limits.most)
        assert scale.replicas in (before.replicas, needed)
        needed_in_time.append((now_s, needed))
        if scale.replicas < before.replicas:
            assert all(each < before.replicas for at_s, each in needed_in_time if now_s - at_s < IDLE_S)


def test_a_load_that_ends_leaves_as_few_as_there_always_are() -> None:
    limits = ScaleLimits(1, 16, 100, IDLE_S)
    scale = scaled(Scale(1, 0.0), limits, runs=950, now_s=5.0)
    assert scale.replicas == 10
    scale = scaled(scale, limits, runs=0, now_s=5.0 + IDLE_S - 1)
    assert scale.replicas == 10
    assert scaled(scale, limits, runs=0, now_s=5.0 + IDLE_S).replicas == 1


def test_those_serve_that_always_do_and_of_the_others_those_that_live() -> None:
    assert serving(Scale(5, 0.0), ScaleLimits(2, 8, 10, IDLE_S), [1, 4, 6]) == (0, 1, 4)


@given(st.sets(st.integers(0, 15), min_size=2), st.data())
def test_with_one_replica_fewer_only_its_sessions_move(numbers: set[int], data: st.DataObject) -> None:
    lost = data.draw(st.sampled_from(sorted(numbers)))
    for session in range(50):
        key = SessionKey("app", "ada", f"s{session}")
        before = replica_among(key, sorted(numbers))
        after = replica_among(key, sorted(numbers - {lost}))
        assert after == before or before == lost


BUSY = ProcessGroup("busy", Placement(max_replicas=3, runs_per_replica=2))


def replica_for(pool: Pool, session: int) -> Replica:
    """The replica of the busy agent that serves a session."""
    return pool.serving("busy", BUSY, SessionKey("app", "ada", f"s{session}"))


async def ask(pool: Pool, session: int) -> None:
    await (await pool.link(replica_for(pool, session), BUSY)).send(HI)


def living(pool: Pool) -> list[int]:
    return sorted(replica.replica for replica, _ in pool.table.live())


def used_by(pool: Pool) -> set[int]:
    """The replicas that serve any of many sessions."""
    return {replica_for(pool, session).replica for session in range(50)}


async def test_a_busy_agent_gets_replicas_and_those_that_are_needed_no_more_end(cluster: FakeCluster) -> None:
    cluster.gate = asyncio.Event()
    pool = cluster.pool(idle_timeout_s=0.3)
    async with asyncio.TaskGroup() as group:
        group.create_task(ask(pool, 0))
        await until(lambda: cluster.runs() == 1)
        assert used_by(pool) == {0}
        for session in range(5):
            group.create_task(ask(pool, session))
        # More than its two replicas are for, and fewer than five would be for.
        await until(lambda: used_by(pool) == {0, 1, 2})
        assert cluster.agents_by_process() == [["busy"]] * 3
        cluster.gate.set()
    await until(lambda: used_by(pool) == {0})
    await until(lambda: living(pool) in ([], [0]))
    assert len(cluster.processes) <= 1


async def test_a_session_is_served_by_replicas_that_live_while_another_one_cannot_be_started(cluster: FakeCluster) -> None:
    cluster.gate = asyncio.Event()
    pool = cluster.pool()
    async with asyncio.TaskGroup() as group:
        group.create_task(ask(pool, 0))
        await until(lambda: cluster.runs() == 1)
        cluster.start_error = ClusterError("there is no room")
        for session in range(9):
            group.create_task(ask(pool, session))
        await until(lambda: used_by(pool) == {0} and cluster.runs() == 10)
        cluster.gate.set()
    assert living(pool) == [0]


async def test_closing_ends_replicas_that_wait_for_a_node(cluster: FakeCluster) -> None:
    cluster.gate = asyncio.Event()
    pool = cluster.pool()
    runs = [asyncio.create_task(ask(pool, session)) for session in range(4)]
    await until(lambda: cluster.runs() == 4)
    cluster.room.clear()
    await until(lambda: len(pool.table.live()) == 1 and used_by(pool) == {0})
    cluster.gate.set()
    await asyncio.gather(*runs)
    closing = asyncio.create_task(pool.close())
    cluster.room.set()
    await closing
    assert not cluster.processes


async def test_an_agent_joins_others_while_there_is_no_room_for_the_process_that_it_would_claim(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=8, claims=True)
    assert await say(pool, "a") == "a"
    cluster.room.clear()
    assert [await say(pool, agent) for agent in "bc"] == ["b", "c"]
    assert cluster.agents_by_process() == [["a", "b", "c"]]
    cluster.room.set()
    assert await say(pool, "d") == "d"
    assert cluster.agents_by_process() == [["a", "b", "c"], ["d"]]


async def ask_any(pool: Pool, agent: str, session: int) -> None:
    """Run an agent that asks for nothing."""
    await (await pool.link_for(agent, None, SessionKey("app", "ada", f"s{session}"))).send(HI)


async def test_an_agent_that_asks_for_nothing_gets_replicas_where_processes_claim_resources(cluster: FakeCluster) -> None:
    cluster.gate = asyncio.Event()
    pool = cluster.pool(max_processes=8, claims=True)
    async with asyncio.TaskGroup() as group:
        for session in range(SCALED.runs_per_replica + 1):
            group.create_task(ask_any(pool, "a", session))
        await until(lambda: cluster.runs() == SCALED.runs_per_replica + 1)

        await until(lambda: pool.serving("a", scaled_group(None, "a"), SessionKey("app", "ada", "s")) and living(pool) == [0, 1])
        cluster.gate.set()


async def test_many_agents_that_are_busy_together_want_a_process_that_no_turn_waits_for(cluster: FakeCluster) -> None:
    cluster.gate = asyncio.Event()
    pool = cluster.pool(max_processes=1, claims=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(ask_any(pool, "a0", 0))
        await until(lambda: cluster.runs() == 1)
        cluster.room.clear()
        for session in range(SCALED.runs_per_replica):
            group.create_task(ask_any(pool, f"a{session % 4}", session))
        await until(lambda: cluster.runs() == SCALED.runs_per_replica + 1)

        # The runs of all are counted once in a second.
        await until(lambda: pool.serving("a0", scaled_group(None, "a0"), SessionKey("app", "ada", "s")) and cluster.waiting > 0)
        assert (pool.table.counts()["hosts"], len(cluster.processes)) == (1, 1)
        cluster.room.set()
        await until(lambda: pool.table.counts()["spares"] == 1)
        cluster.gate.set()


async def test_no_spare_waits_for_a_node_and_none_is_made_of_a_process_that_claims_one(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=8, spares=1, claims=True)
    pool.start_spares()
    await pool.spares_started()
    assert len(cluster.processes) == 1
    cluster.room.clear()
    agent = await pool.link(Replica("a"))
    await pool.spares_started()
    assert cluster.agents_by_process() == [["a"]]
    agent.used_s -= 600
    pool.passivation.passivate_idle()
    assert not cluster.processes
