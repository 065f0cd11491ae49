"""Agents are activated in processes and passivated: which ones make room, and that no message reaches an agent that has left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.definitions.agents import Placement
from actors.errors import ActorLostError, ClusterError
from actors.layers.trees.process_groups import ProcessGroup, Replica
from runtime.cluster.processes.pool import Pool
from runtime.cluster.processes.worker_process import RECYCLE_AFTER, Activated, HostedAgent
from tests.support.fixtures.direct_fixture import until
from tests.support.fixtures.pool_fixture import HI, FakeCluster, FakeProcess, group_of, process_of, say
from tests.support.tries import tries


async def test_a_tree_that_fits_has_a_process_for_each_agent(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=3, spares=2, agents=3)
    for agent in "abcabc":
        assert await say(pool, agent) == agent
    assert [each for each in cluster.agents_by_process() if each] == [["a"], ["b"], ["c"]]


async def test_agents_that_are_idle_stay_side_by_side(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=2)
    for agent in ("a", "b", "a", "c", "d", "a", "b", "c", "d"):
        assert await say(pool, agent) == agent
    assert cluster.agents_by_process() == [["a", "d"], ["b", "c"]]
    assert cluster.started == 2
    never = dict.fromkeys(("spares", "starting", "passivations", "shared", "replaced", "lost"), 0)
    assert pool.table.counts() == {**never, "hosts": 2, "activations": 4}
    await pool.close()
    assert not cluster.processes


async def test_when_nobody_is_idle_processes_are_shared_evenly_and_nobody_waits(cluster: FakeCluster) -> None:
    cluster.gate = asyncio.Event()
    pool = cluster.pool(max_processes=2)
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(say(pool, agent)) for agent in "abcdef"]
        await until(lambda: cluster.runs() == 6)
        assert [len(together) for together in cluster.agents_by_process()] == [3, 3]
        assert pool.table.counts()["shared"] == 4
        cluster.gate.set()
    assert [run.result() for run in runs] == list("abcdef")
    await say(pool, "g")
    assert sorted(map(len, cluster.agents_by_process())) == [3, 4]
    assert (pool.table.counts()["passivations"], pool.table.counts()["shared"]) == (0, 4)


async def test_a_working_set_that_is_larger_than_the_processes_is_activated_once(cluster: FakeCluster) -> None:
    agents = [f"a{number}" for number in range(60)]
    pool = cluster.pool(max_processes=4, spares=1, agents=len(agents))
    pool.start_spares()
    for _ in range(5):
        await asyncio.gather(*(say(pool, agent) for agent in agents))
    assert pool.table.counts()["activations"] == len(agents)
    assert max(map(len, cluster.agents_by_process())) <= len(agents) / 4 + 1


async def test_agents_of_a_tree_that_does_not_fit_wait_for_no_process_that_starts(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=4, spares=1, agents=40)
    await say(pool, "a")
    start, may_start = cluster.start, asyncio.Event()

    async def start_later(group: ProcessGroup | None, node: str = "", *, is_spare: bool = False) -> FakeProcess:
        await may_start.wait()
        return await start(group, node, is_spare=is_spare)

    cluster.start = start_later  # type: ignore[method-assign]
    for process in list(cluster.processes):
        if not process.agents:
            process.kill()
    assert await asyncio.gather(*(say(pool, agent) for agent in "bcd")) == ["b", "c", "d"]
    may_start.set()


async def test_a_process_that_is_short_of_memory_lets_idle_agents_go_and_none_in_use(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=1, memory_share=100)
    for agent in "abcd":
        await say(pool, agent)
    (process,) = cluster.processes
    process.memory_bytes = 101
    await say(pool, "e")
    cluster.gate = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        run = group.create_task(say(pool, "a"))
        await until(lambda: cluster.runs() == 1)
        other = group.create_task(say(pool, "f"))
        await until(lambda: cluster.runs() == 2)
        # Of b, c, d and e, those that were idle longest.
        assert cluster.agents_by_process() == [["a", "d", "e", "f"]]
        cluster.gate.set()
    assert (run.result(), other.result()) == ("a", "f")
    # When none is in use, another process takes its place: memory that Python has given out does not come back.
    await say(pool, "g")
    assert cluster.agents_by_process() == [["g"]]
    assert cluster.started == 2


async def test_replicas_of_an_agent_do_not_share_a_process_while_there_is_another(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=3)
    popular = ProcessGroup("popular", Placement(replicas=3))
    cluster.gate = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for agent in ("x", "y"):
            group.create_task(say(pool, agent))
        await until(lambda: cluster.runs() == 2)
        hosts = {(await pool.link(Replica("popular", number), popular)).worker for number in range(3)}
        assert len(hosts) == 3
        cluster.gate.set()


async def test_who_is_spoken_to_by_many_at_once_moves_in_once(cluster: FakeCluster) -> None:
    pool = cluster.pool()
    assert await asyncio.gather(*(say(pool, "a") for _ in range(5))) == ["a"] * 5
    assert pool.table.counts()["activations"] == 1


async def test_who_was_put_to_sleep_cannot_be_reached_by_the_old_way(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=1)
    old = await pool.link(Replica("a"))
    await say(pool, "b")
    old.used_s -= 600
    pool.passivation.passivate_idle()
    with pytest.raises(ActorLostError, match="'a' is gone: it was idle"):
        await old.send(HI)
    # Forgetting the old link does not end a process in which another agent lives by now.
    pool.table.drop_link(old)
    assert cluster.agents_by_process() == [["b"]]
    assert pool.table.activations == {Replica("a"): 1, Replica("b"): 1}
    assert await say(pool, "a") == "a"
    assert pool.table.activations == {Replica("a"): 2, Replica("b"): 1}


async def test_looking_at_somebody_is_no_use_of_him(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=2)
    await say(pool, "a")
    await say(pool, "b")
    (await pool.link(Replica("a"))).used_s -= 600
    for _, link in pool.table.live()[:1]:
        await link.send(HI)
    pool.passivation.passivate_idle()
    assert [str(place) for place, _ in pool.table.live()] == ["b"]


async def test_a_lost_process_takes_all_along_who_live_in_it(cluster: FakeCluster) -> None:
    cluster.gate = asyncio.Event()
    pool = cluster.pool(max_processes=1)
    runs = asyncio.gather(say(pool, "a"), say(pool, "b"), return_exceptions=True)
    await until(lambda: cluster.runs() == 2)
    pool.table.drop_link((await pool.link(Replica("a"))).idle_link)
    assert pool.table.live() == []
    assert pool.table.losses == {Replica("a"): 1, Replica("b"): 1}
    cluster.gate.set()
    assert [type(lost) for lost in await runs] == [ActorLostError, ActorLostError]
    assert [await say(pool, "a"), await say(pool, "b")] == ["a", "b"]
    assert cluster.started == 2


async def test_spares_stand_ready_and_are_filled_up_behind_those_who_take_them(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=8, spares=2)
    pool.start_spares()
    await until(lambda: pool.table.counts()["spares"] == 2)
    assert len(pool.table.spare_pids()) == 2
    before = set(cluster.processes)
    assert process_of(await pool.link(Replica("a"))) in before
    await until(lambda: pool.table.counts()["spares"] == 2)
    assert pool.table.counts()["hosts"] == 1
    await pool.close()
    assert not cluster.processes


async def test_there_are_no_more_spares_than_there_is_room_and_need_for(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=3, spares=3, agents=2)
    pool.start_spares()
    await until(lambda: pool.table.counts()["spares"] == 2)
    await say(pool, "a")
    await say(pool, "b")
    # One stays, to replace a process that is lost.
    await until(lambda: pool.table.counts()["spares"] == 1)
    assert pool.table.counts()["hosts"] == 2


async def test_spares_that_were_lost_are_nobodys_death(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=8, spares=2)
    pool.start_spares()
    await until(lambda: pool.table.counts()["spares"] == 2)
    for process in cluster.processes:
        process.is_dead = True
    assert await say(pool, "a") == "a"


async def test_a_process_that_is_lost_as_soon_as_it_lives_is_told_to_who_waits(cluster: FakeCluster) -> None:
    pool = cluster.pool()
    cluster.is_deadly = True
    with pytest.raises(ActorLostError):
        await say(pool, "a")
    assert pool.table.counts()["hosts"] == 0


async def test_an_agent_that_cannot_be_loaded_costs_nobody_his_process(cluster: FakeCluster) -> None:
    cluster.broken = {"b"}
    pool = cluster.pool(max_processes=1)
    with pytest.raises(ClusterError):
        await say(pool, "b")
    assert await say(pool, "a") == "a"
    cluster.broken = set()
    assert await say(pool, "b") == "b"
    assert (cluster.started, pool.table.counts()["shared"]) == (2, 0)


async def test_idle_agents_are_put_to_sleep_after_a_time_and_busy_ones_are_not(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=4, idle_timeout_s=0.02)
    await say(pool, "a")
    cluster.gate = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        run = group.create_task(say(pool, "b"))
        await until(lambda: pool.table.counts()["passivations"] == 1)
        assert [str(place) for place, _ in pool.table.live()] == ["b"]
        cluster.gate.set()
    assert run.result() == "b"
    await until(lambda: not cluster.processes)
    assert pool.table.counts()["hosts"] == 0


async def test_who_was_spoken_to_lately_stays_when_others_are_put_to_sleep(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=4, idle_timeout_s=600)
    await say(pool, "a")
    (await pool.link(Replica("a"))).used_s -= 600
    await say(pool, "b")
    pool.passivation.passivate_idle()
    assert [str(place) for place, _ in pool.table.live()] == ["b"]


async def test_a_process_that_cannot_be_started_is_told_and_tried_again(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=1, spares=1)
    cluster.start_error = ClusterError("no more processes")
    with pytest.raises(ClusterError, match="no more"):
        await say(pool, "a")
    assert pool.table.counts()["hosts"] == pool.table.counts()["spares"] == 0
    cluster.start_error = None
    assert await say(pool, "a") == "a"


async def test_who_moves_in_where_everybody_is_just_lost_moves_in_elsewhere(cluster: FakeCluster) -> None:
    cluster.gate = asyncio.Event()
    pool = cluster.pool(max_processes=1)
    run = asyncio.create_task(say(pool, "a"))
    await until(lambda: pool.table.live())
    process = process_of(first := await pool.link(Replica("a")))
    activate = process.activate

    async def activate_too_late(slot: int, agent: str, leaving: Sequence[int]) -> Activated:
        activated = await activate(slot, agent, leaving)
        pool.table.drop_link(first)
        return activated

    process.activate = activate_too_late  # type: ignore[method-assign]
    other = await pool.link(Replica("b"))
    assert process_of(other) is not process
    cluster.gate.set()
    assert await other.send(HI) == b"b"
    with pytest.raises(ActorLostError):
        await run


async def test_a_worn_process_is_replaced_when_it_is_empty_and_not_while_agents_live_in_it(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=1, spares=1, agents=1_000)
    stays = await pool.link(Replica("stays"))
    for number in range(RECYCLE_AFTER):
        (await pool.link(Replica(f"a{number}"))).used_s -= 600
    pool.passivation.passivate_idle()
    assert pool.table.counts()["passivations"] == RECYCLE_AFTER
    assert stays.worker.is_worn
    assert process_of(stays) in cluster.processes
    assert await say(pool, "stays") == "stays"
    assert await say(pool, "b") == "b"
    for agent in ("stays", "b"):
        (await pool.link(Replica(agent))).used_s -= 600
    pool.passivation.passivate_idle()
    await until(lambda: process_of(stays) not in cluster.processes)


async def test_a_process_that_had_many_agents_which_all_live_is_not_worn(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=1)
    for number in range(2 * RECYCLE_AFTER):
        await say(pool, f"a{number}")
    assert cluster.started == 1
    assert pool.table.counts()["passivations"] == 0


async def test_who_asks_for_resources_has_a_process_of_its_own_beside_the_others(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=1)
    await say(pool, "a")
    await say(pool, "painter", group_of("painter"))
    await say(pool, "b")
    assert cluster.agents_by_process() == [["a", "b"], ["painter"]]
    # When it is idle, its resources are given to an agent that needs them.
    await say(pool, "sculptor", group_of("sculptor"))
    assert cluster.agents_by_process() == [["a", "b"], ["sculptor"]]


async def test_who_asks_for_what_is_free_takes_it_from_nobody(cluster: FakeCluster) -> None:
    pool = cluster.pool()
    await say(pool, "painter", group_of("painter"))
    cluster.free.set()
    await say(pool, "sculptor", group_of("sculptor"))
    assert cluster.agents_by_process() == [["painter"], ["sculptor"]]


async def test_an_agent_whose_answer_nobody_waits_for_any_more_has_time_to_stop(cluster: FakeCluster) -> None:
    cluster.gate = asyncio.Event()
    pool = cluster.pool(max_processes=1)
    run = asyncio.create_task(say(pool, "a"))
    await until(lambda: any(each.runs.get(0) for each in cluster.processes))
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    cluster.gate.set()
    await say(pool, "b")
    assert cluster.agents_by_process() == [["a", "b"]]


async def test_those_who_live_with_others_share_their_process_whoever_is_spoken_to_first(cluster: FakeCluster) -> None:
    pool = cluster.pool(max_processes=8)
    group = ProcessGroup("top", Placement())
    child = await pool.link(Replica("child"), group)
    top = await pool.link(Replica("top"), None)
    grandchild = await pool.link(Replica("grandchild"), group)
    assert child.worker is top.worker is grandchild.worker
    assert (await pool.link(Replica("child", 1), group)).worker is not top.worker
    assert pool.table.counts()["shared"] == 0


async def test_closing_ends_also_what_is_just_being_started(cluster: FakeCluster) -> None:
    cluster.pauses = [50] * 10
    pool = cluster.pool(spares=2)
    pool.start_spares()
    waiting = asyncio.gather(say(pool, "a"), say(pool, "painter", group_of("painter")), return_exceptions=True)
    await asyncio.sleep(0)
    await pool.close()
    await waiting
    assert not cluster.processes


async def tell(pool: Pool, agent: str) -> str:
    """Send a message until the agent replies, as the Runner does."""
    link = None
    while True:
        try:
            link = await pool.link(Replica(agent))
            return (await link.send(HI)).decode()
        except ActorLostError:
            if link is not None:
                pool.table.drop_link(link)


Steps = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 4), st.sampled_from(["", "", "gives up", "dies"])),
    min_size=1,
    max_size=60,
)


@settings(max_examples=tries(200))
@given(steps=Steps, max_processes=st.integers(1, 3), spares=st.integers(0, 2), pauses=st.lists(st.integers(0, 6), max_size=80))
def test_whoever_speaks_to_whomever_is_answered_by_him_and_there_are_never_too_many_processes(
    steps: list[tuple[str, int, str]], max_processes: int, spares: int, pauses: list[int]
) -> None:
    """Each step: the agent to send to, how soon after the step before, and whether the sender gives up or a process dies."""

    async def play() -> None:
        cluster = FakeCluster()
        cluster.pauses = pauses
        pool = cluster.pool(max_processes=max_processes, spares=spares, agents=8)
        pool.start_spares()
        runs: list[tuple[str, asyncio.Task[str]]] = []
        for agent, pause, what in steps:
            runs.append((agent, asyncio.create_task(tell(pool, agent))))
            for _ in range(pause):
                await asyncio.sleep(0)
                assert pool.table.counts()["hosts"] <= max_processes
            if what == "gives up":
                runs.pop()[1].cancel()
            elif what == "dies" and cluster.processes:
                cluster.lose(min(cluster.processes, key=lambda each: each.number))
        assert [agent for agent, _ in runs] == [await run for _, run in runs]
        assert pool.table.counts()["hosts"] <= max_processes
        assert {str(place) for place, _ in pool.table.live()} >= {
            agent for each in cluster.processes for agent in each.agents.values()
        }
        await pool.close()
        assert not cluster.processes

    asyncio.run(play())


A = Replica("a")


async def begin(pool: Pool, replica: Replica = A) -> tuple[HostedAgent, asyncio.Task[bytes]]:
    """Begin a run, which waits at the cluster's gate."""
    agent = await pool.link(replica)
    runs = process_of(agent).runs
    before = sum(runs.values())
    run = asyncio.create_task(agent.send(HI))
    await until(lambda: sum(runs.values()) > before)
    return agent, run


async def test_the_run_of_a_worn_out_process_goes_on_and_every_other_one_has_another_process(cluster: FakeCluster) -> None:
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


async def test_a_worn_out_process_without_a_run_ends_at_once(cluster: FakeCluster) -> None:
    pool = cluster.pool()
    old = await pool.link(A)
    assert await old.send(HI) == b"a"
    pool.drain(process_of(old).name, "it is worn out")
    await asyncio.sleep(0)
    assert not cluster.processes
    assert process_of(await pool.link(A)) is not process_of(old)


async def test_an_agent_that_was_moving_into_a_worn_out_process_moves_in_elsewhere(cluster: FakeCluster) -> None:
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


async def test_a_worn_out_process_with_resources_is_ended_for_the_next_one_that_needs_them(
    cluster: FakeCluster,
) -> None:
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


async def test_a_worn_out_process_that_does_not_answer_either_is_ended_with_its_runs(cluster: FakeCluster) -> None:
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


async def test_closing_ends_a_worn_out_process_too(cluster: FakeCluster) -> None:
    pool = cluster.pool()
    cluster.gate = asyncio.Event()
    old, run = await begin(pool)
    pool.drain(process_of(old).name, "it is worn out")
    cluster.gate.set()
    await pool.close()
    await asyncio.gather(run, return_exceptions=True)
    assert not cluster.processes


async def test_a_process_that_is_gone_cannot_be_replaced(cluster: FakeCluster) -> None:
    pool = cluster.pool()
    old = await pool.link(A)
    pool.drain("another", "it is worn out")
    pool.drain(process_of(old).name, "it is worn out")
    pool.drain(process_of(old).name, "it is worn out")
    assert pool.table.counts()["replaced"] == 1
