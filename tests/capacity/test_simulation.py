"""A cluster on paper, held to what must be true of any: laws of queues, limits that can be counted by hand, and real turns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import LlmAgent
from tests.benchmarks.depth import CALLS, ToolCallingModel, look
from tests.benchmarks.recorded import record
from tests.benchmarks.workloads import ROOT
from tests.capacity import unit_costs
from tests.capacity.cluster import MESSAGE_BYTES, Cluster, ClusterError
from tests.capacity.queues import CommitLog, Cores, Process, SimulatedTime, Then, play
from tests.capacity.simulation import NODES, Conversation, Load, bears, most, played, simulate, turn_ms
from tests.capacity.unit_costs import AGENT, DATABASE, RUNNER, SESSION, WEB, NoUnitCostsError, UnitCost, UnitCosts

pytestmark = pytest.mark.sampled(4, of="module", full=3)

QUICK = UnitCost(pass_ms=0.1, turn_ms=0.1, event_ms=0.05)
COSTS = UnitCosts(
    measured="",
    machine="",
    cores=2,
    versions={},
    parts=dict.fromkeys((WEB, RUNNER, SESSION, AGENT), QUICK),
    postgres=dict.fromkeys((SESSION, DATABASE), QUICK),
    shared_ms={SESSION: 0.1},
    hop_ms=0.05,
    memory_mb={},
    loads=[],
)
"""Of no real machine."""

ROOM = Cluster(nodes=4, cores=8, webs=2, runners=2, shards=2, agents=2, databases=1)


def with_cost(part: str, turn_ms: float) -> UnitCosts:
    """The same, but that a part's CPU of a turn is another, and its passes take none."""
    changed = UnitCost(pass_ms=0.0, turn_ms=turn_ms)
    return msgspec.structs.replace(COSTS, parts={**COSTS.parts, part: changed})


def inside_s(load: float, service_s: Callable[[], float], mean_s: float) -> float:
    """How long a message is in a process that takes one in a pass, on average; messages come at any times."""
    time, chance, times_s = SimulatedTime(), Random(1), list[float]()
    process = Process(time, Cores(time, 1), at_once=1)

    def arrive(left: int) -> None:
        began_s = time.now_s
        play(iter([process.take(service_s())]), lambda: times_s.append(time.now_s - began_s))
        if left > 1:
            time.call_in(chance.expovariate(load / mean_s), partial(arrive, left - 1))

    arrive(20_000)
    time.run()
    return mean(times_s)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_a_message_is_in_a_queue_for_as_long_as_theory_says(load: float) -> None:
    chance, mean_s = Random(2), 3e-5
    assert inside_s(load, lambda: chance.expovariate(1 / mean_s), mean_s) == pytest.approx(mean_s / (1 - load), rel=0.1)
    waits_s = inside_s(load, lambda: mean_s, mean_s) - mean_s
    assert waits_s == pytest.approx(mean_s * load / (1 - load) / 2, rel=0.1), "all take the same time"


@settings(deadline=None)
@given(
    messages=st.lists(st.tuples(st.integers(0, 3), st.floats(0, 0.02), st.floats(0, 0.01)), min_size=1, max_size=60),
    cores=st.integers(1, 4),
    pass_s=st.sampled_from([0.0, 0.001]),
)
def test_all_cpu_that_is_asked_for_is_had_and_no_core_works_for_two(
    messages: list[tuple[int, float, float]], cores: int, pass_s: float
) -> None:
    time = SimulatedTime()
    node = Cores(time, cores)
    processes = [Process(time, node, pass_s=pass_s) for _ in range(4)]
    done: list[float] = []

    def send(number: int, cpu_s: float) -> None:
        play(iter([processes[number].take(cpu_s)]), lambda: done.append(time.now_s))

    for number, at_s, cpu_s in messages:
        time.call_in(at_s, partial(send, number, cpu_s))
    time.run()
    asked_s = sum(cpu_s for *_, cpu_s in messages) + pass_s * sum(each.passes for each in processes)
    assert len(done) == len(messages)
    assert node.used_s == pytest.approx(asked_s)
    assert sum(each.used_s for each in processes) == pytest.approx(asked_s)
    assert node.used_s <= cores * time.now_s + 1e-9
    assert all(each.used_s <= time.now_s + 1e-9 for each in processes)


def test_a_process_takes_all_that_came_while_it_waited_for_a_core_in_one_pass() -> None:
    time = SimulatedTime()
    cores = Cores(time, 1)
    process = Process(time, cores, pass_s=0.001)
    play(iter([Process(time, cores).take(0.003)]))
    for at_s in (0.0, 0.001, 0.002):
        time.call_in(at_s, lambda: play(iter([process.take(0.001)])))
    time.run()
    assert process.passes == 1
    assert time.now_s == pytest.approx(0.007)


def test_what_comes_during_a_transaction_is_written_with_the_next_one() -> None:
    time = SimulatedTime()
    groups: list[int] = []

    def transaction(writes: int) -> list[Callable[[Then], None]]:
        groups.append(writes)
        return [time.pause(1.0)]

    log = CommitLog(time, lambda writes: iter(transaction(writes)))
    ended: list[float] = []
    for at_s in (0.0, 0.1, 0.2, 1.5):
        time.call_in(at_s, lambda: log.write(lambda: ended.append(time.now_s)))
    time.run()
    assert (groups, log.commits) == ([1, 2, 1], 3)
    assert ended == [1.0, 2.0, 2.0, 3.0]


@pytest.mark.parametrize(("part", "field"), [(WEB, "webs"), (RUNNER, "runners"), (AGENT, "agents")])
@pytest.mark.parametrize("number", [1, 2])
def test_a_closed_loop_that_keeps_a_part_busy_gets_what_its_turns_cost(part: str, field: str, number: int) -> None:
    costs = with_cost(part, 2.0)
    cluster = msgspec.structs.replace(ROOM, **{field: number})
    outcome = simulate(costs, cluster, Load(sessions=400, turns=4_000))
    assert outcome.bottleneck == part
    assert bears(costs, cluster, Conversation())[part] == number * 500
    assert outcome.rate == pytest.approx(number * 500, rel=0.2)
    assert outcome.parts[part].mean > 0.9


def test_a_closed_loop_that_keeps_all_cores_busy_gets_what_its_turns_cost() -> None:
    costs = msgspec.structs.replace(COSTS, parts=dict.fromkeys(COSTS.parts, UnitCost(pass_ms=0.0, turn_ms=0.5)))
    cluster = Cluster(cores=1, databases=0)
    outcome = simulate(costs, cluster, Load(sessions=100, turns=2_000))
    assert outcome.bottleneck == NODES
    assert outcome.rate == pytest.approx(1 / (4 * 0.5e-3), rel=0.05)


@settings(deadline=None, max_examples=8)
@given(rate=st.floats(20, 900), seed=st.integers(0, 1_000), model_s=st.sampled_from([0.0, 0.2]))
def test_turns_under_way_are_the_rate_times_their_time_and_cpu_is_what_turns_cost(rate: float, seed: int, model_s: float) -> None:
    outcome = simulate(COSTS, ROOM, Load(sessions=10_000, rate=rate, turns=600), Conversation(model_s=model_s), seed)
    assert outcome.rate == pytest.approx(rate, rel=0.3)
    assert outcome.p50_ms >= model_s * 1_000
    assert outcome.p50_ms <= outcome.p95_ms <= outcome.p99_ms
    # The mean lies near the median where nothing is saturated.
    assert outcome.at_once == pytest.approx(outcome.rate * outcome.p50_ms / 1_000, rel=0.3)
    used = {part: busy.mean * busy.number for part, busy in outcome.parts.items()}
    assert sum(used[part] for part in (WEB, RUNNER, SESSION, AGENT)) == pytest.approx(used[NODES], rel=0.05)
    passes_ms = sum(outcome.passes.values()) * 0.1
    assert used[NODES] * 1_000 / outcome.rate == pytest.approx(passes_ms + 0.5, rel=0.15)
    assert all(busy.mean <= 1 + 1e-9 for busy in outcome.parts.values())


def test_the_same_seed_has_the_same_outcome_and_another_one_another() -> None:
    first, again, other = (simulate(COSTS, ROOM, Load(sessions=50, rate=300, turns=500), seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_turn_that_is_alone_has_a_pass_for_each_message_and_many_share_them() -> None:
    alone = simulate(COSTS, Cluster(databases=0), Load(sessions=1, turns=50))
    assert alone.passes == {part: passes for part, passes in unit_costs.PASSES.items() if part != DATABASE}
    assert alone.commits == 2
    crowd = simulate(COSTS, Cluster(databases=0), Load(sessions=64, turns=1_280))
    assert all(crowd.passes[part] < 0.5 * alone.passes[part] for part in alone.passes)
    assert crowd.commits < 0.2


def test_a_turn_sends_and_commits_what_a_real_one_does() -> None:
    plain, calling = record(), record(LlmAgent(name=ROOT, model=ToolCallingModel(), tools=[look]))
    load = Load(sessions=1, turns=20)
    assert plain.calls.keys() - {"Poll"} == {"StartTurn", "OpenTurn", "Invoke", "Append"}
    between = [plain.requests[name] for name in ("OpenTurn", "Invoke", "Append")]
    assert pytest.approx(sum(between) / len(between), rel=0.1) == MESSAGE_BYTES
    for real, conversation in ((plain, Conversation()), (calling, Conversation(tool_calls=CALLS))):
        simulated = simulate(COSTS, Cluster(databases=0), load, conversation)
        assert simulated.commits == real.commits
        # A pass for each request, but the poll that waits, one for each transaction, and one when it has ended.
        requests = sum(number for name, number in real.calls.items() if name in ("OpenTurn", "Append"))
        assert simulated.passes[SESSION] == requests + 2 * real.commits


def test_a_turn_waits_for_its_model_and_its_tools_and_they_take_no_cpu_of_their_own() -> None:
    load = Load(sessions=1, turns=50)
    quick = simulate(COSTS, ROOM, load, Conversation(tool_calls=2))
    slow = simulate(COSTS, ROOM, load, Conversation(tool_calls=2, model_s=1.0, tool_s=0.5))
    assert slow.p50_ms == pytest.approx(quick.p50_ms + 3_000 + 1_000, rel=0.01)
    assert quick.commits == 6
    assert most(COSTS, ROOM, Conversation(tool_calls=2, model_s=9.0)) == most(COSTS, ROOM, Conversation(tool_calls=2))


def test_the_sdk_of_a_model_takes_cpu_in_the_agents_process_for_each_call() -> None:
    load, bare = Load(sessions=1, turns=50), Conversation(tool_calls=1)
    by_sdk = Conversation(tool_calls=1, call_ms=3.0)
    without, outcome = (simulate(COSTS, ROOM, load, each) for each in (bare, by_sdk))
    # A part of it while the user's message is stored.
    assert without.p50_ms + 3.0 < outcome.p50_ms <= without.p50_ms + 2 * 3.0 + 0.01
    more_ms = {part: turn_ms(COSTS, ROOM, by_sdk, part) - turn_ms(COSTS, ROOM, bare, part) for part in ROOM.counts}
    assert more_ms.pop(AGENT) == pytest.approx(2 * 3.0)
    assert set(more_ms.values()) == {0.0}


def test_turns_of_one_session_wait_for_each_other() -> None:
    alone = simulate(COSTS, ROOM, Load(sessions=1, turns=50), Conversation(model_s=0.1))
    asked = simulate(COSTS, ROOM, Load(sessions=1, rate=100, turns=50), Conversation(model_s=0.1))
    assert asked.rate < 15
    assert asked.p99_ms > 20 * alone.p99_ms


def test_what_is_asked_for_beyond_the_highest_rate_is_not_had_and_waits() -> None:
    small = Cluster(cores=2, databases=0)
    highest = most(COSTS, small)
    beyond = simulate(COSTS, small, Load(sessions=100_000, rate=3 * highest, turns=3_000))
    within = simulate(COSTS, small, Load(sessions=100_000, rate=0.5 * highest, turns=3_000))
    assert beyond.rate < 1.3 * highest
    assert within.rate == pytest.approx(0.5 * highest, rel=0.1)
    assert beyond.p50_ms > 10 * within.p50_ms


def test_several_session_actors_have_the_cpu_besides_that_they_were_measured_to_have() -> None:
    clusters = (msgspec.structs.replace(ROOM, shards=shards) for shards in (1, 2))
    one, two = (bears(COSTS, cluster, Conversation())[SESSION] for cluster in clusters)
    assert one == pytest.approx(1_000 / 0.1)
    assert two == pytest.approx(2 * 1_000 / 0.2)


def test_the_simulation_is_near_what_was_measured() -> None:
    """The costs follow from the loads of one session and of the most; the others are simulated without a look at them."""
    costs = unit_costs.read()
    assert {load.sessions for load in costs.loads} == {1, 4, 16, 64, 128, 256}
    for load in costs.loads:
        outcome = played(costs, load)
        for said, was in ((outcome.rate, load.rate), (outcome.p50_ms, load.p50_ms), (outcome.p99_ms, load.p99_ms)):
            assert 1 / 1.8 < said / was < 1.8, load


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: Cluster(nodes=0), "nodes is 0, and there is at least one"),
        (lambda: Cluster(network_ms=-1), "network_ms is -1, and cannot be less than 0"),
        (lambda: Cluster(nodes=2, databases=0), "give at least one database"),
        (lambda: Cluster(databases=3, shards=2), "3 databases are more than the 2 Session actors"),
        (lambda: Load(sessions=0), "sessions is 0, and there is at least one"),
        (lambda: Load(sessions=1, rate=-1), "the rate is -1 turns a second, and has to be more than 0"),
        (lambda: Load(sessions=1, rate=float("nan")), "the rate is nan"),
        (lambda: Load(sessions=1, turns=0), "turns is 0"),
        (lambda: simulate(COSTS, ROOM, Load(sessions=1, turns=10_000_000)), "10,000,000 turns would have to be played"),
        (lambda: simulate(COSTS, ROOM, Load(sessions=9, rate=1e6), Conversation(model_s=2.0)), "2,006,250 turns would have to"),
        (lambda: simulate(COSTS, ROOM, Load(sessions=3_000_000)), "fewer sessions of a closed loop"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(wrong: object, told: str) -> None:
    assert callable(wrong)
    with pytest.raises(ClusterError, match=told):
        wrong()


def test_unit_costs_come_back_from_their_file_and_a_file_that_is_none_says_how_it_is_made(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    with pytest.raises(NoUnitCostsError, match=r"costs\.json.*tests\.capacity measure"):
        unit_costs.read(file)
    file.write_text("{}")
    with pytest.raises(NoUnitCostsError, match="missing required field"):
        unit_costs.read(file)
    unit_costs.write(COSTS, file)
    assert unit_costs.read(file) == COSTS
