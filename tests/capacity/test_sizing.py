"""The page's table of sizes, the commands, and unit costs that are taken from loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.benchmarks.plan import TINY
from tests.benchmarks.results import FOLDER
from tests.benchmarks.workloads import instant_agent, runtime
from tests.capacity import sizing, unit_costs
from tests.capacity.__main__ import main
from tests.capacity.cluster import Cluster
from tests.capacity.loads import LEVELS, MeasuredDeployment
from tests.capacity.measure import Measured
from tests.capacity.measure import unit_costs as taken_from
from tests.capacity.simulation import Conversation, Load, bears, simulate
from tests.capacity.test_simulation import COSTS
from tests.capacity.unit_costs import AGENT, DATABASE, RUNNER, SESSION, WEB, MeasuredLoad, UnitCost, UnitCosts

pytestmark = pytest.mark.sampled(4, of="module", full=3)

ROOT = FOLDER.parents[1]

MACHINE = msgspec.structs.replace(
    COSTS,
    parts={
        WEB: UnitCost(pass_ms=0.13, turn_ms=0.2),
        RUNNER: UnitCost(pass_ms=0.11, turn_ms=0.25),
        SESSION: UnitCost(pass_ms=0.15, turn_ms=0.18),
        AGENT: UnitCost(pass_ms=0.22, turn_ms=0.23),
    },
    hop_ms=0.04,
)
"""A machine of which the unit costs are known: its loads are simulated."""


@pytest.mark.soak
def test_the_page_has_the_tables_that_the_program_prints() -> None:
    page = (ROOT / sizing.PAGE).read_text()
    assert sizing.with_sizing(page, unit_costs.read()) == page


def test_a_page_without_a_place_for_the_tables_is_refused() -> None:
    with pytest.raises(ValueError, match=r"docs/deployment\.md has no place for the tables"):
        sizing.with_sizing("# Deployment\n", COSTS)


@pytest.mark.parametrize("rate", [50.0, 4_900.0])
def test_a_cluster_is_sized_so_that_every_part_bears_twice_the_rate_and_none_has_one_more_than_it_needs(rate: float) -> None:
    cluster = sizing.for_rate(COSTS, Cluster(), sizing.TALK, rate)
    can = bears(COSTS, cluster, sizing.TALK)
    for part, field in sizing.FIELDS.items():
        number = getattr(cluster, field)
        assert can[part] >= rate / sizing.BUSY
        assert number == 1 or can[part] * (number - 1) / number < rate / sizing.BUSY


def test_cpu_of_a_million_turns_is_that_of_a_turn() -> None:
    nodes, database = sizing.cpu_hours(COSTS, Conversation(tool_calls=1))
    # Four parts of 0.1 ms, 0.05 ms for each of two events more, and what several Session actors have besides.
    assert nodes == pytest.approx((4 * (0.1 + 2 * 0.05) + 0.1) / 3.6)
    assert database == pytest.approx((0.1 + 2 * 0.05) / 3.6)


def test_unit_costs_are_found_again_from_the_loads_of_a_machine_that_has_them() -> None:
    loads = [simulated(MACHINE, sessions, turns) for sessions, turns in LEVELS.items()]
    tools = msgspec.structs.replace(loads[-1], cpu_ms={part: spent + 1.0 for part, spent in loads[-1].cpu_ms.items()})
    measured = Measured(
        loads=loads,
        tools=tools,
        postgres=[loads[0], loads[-1]],
        sharded=msgspec.structs.replace(tools, commits=loads[-1].commits),
        memory_mb={WEB: 50.0},
    )
    costs = taken_from(measured)
    for part, cost in MACHINE.parts.items():
        assert costs.parts[part].pass_ms == pytest.approx(cost.pass_ms, rel=0.15)
        assert costs.parts[part].turn_ms == pytest.approx(cost.turn_ms, rel=0.15)
    assert costs.parts[AGENT].event_ms == pytest.approx(0.1)
    assert costs.hop_ms == pytest.approx(MACHINE.hop_ms, abs=0.02)
    assert costs.shared_ms == {SESSION: 1.0, DATABASE: 1.0}


def simulated(costs: UnitCosts, sessions: int, turns: int) -> MeasuredLoad:
    """A load as it would be measured on a machine with these unit costs."""
    outcome = simulate(costs, Cluster(cores=2, databases=0), Load(sessions=sessions, turns=turns), seed=7)
    passes = {**outcome.passes, DATABASE: 0.0}
    cost = {**costs.parts, DATABASE: UnitCost(pass_ms=0, turn_ms=0)}
    return MeasuredLoad(
        sessions=sessions,
        turns=turns,
        rate=outcome.rate,
        p50_ms=outcome.p50_ms,
        p95_ms=outcome.p95_ms,
        p99_ms=outcome.p99_ms,
        cpu_ms={part: cost[part].turn_ms + cost[part].pass_ms * passes[part] for part in cost},
        commits=outcome.commits,
        others=0.0,
    )


async def test_a_load_is_measured_with_its_turns_its_commits_and_the_cpu_of_its_processes(tmp_path: Path) -> None:
    async with runtime(TINY, instant_agent(), tmp_path) as rt:
        deployment = MeasuredDeployment(rt, most=4)
        await deployment.warm_up()
        load = await deployment.load(2, 40)
    assert (load.sessions, load.turns) == (2, 40)
    assert 0 < load.p50_ms <= load.p95_ms <= load.p99_ms
    # Two in a turn that is alone; two sessions may share one.
    assert 1 <= load.commits <= 2
    # All actors of the local engine are in this process.
    assert load.cpu_ms[SESSION] == pytest.approx(load.cpu_ms[RUNNER], rel=0.2)
    assert deployment.memory_mb().keys() == {WEB, RUNNER, SESSION, AGENT}


async def test_each_load_has_new_sessions_and_begins_them_with_turns_that_do_not_count(tmp_path: Path) -> None:
    async with runtime(TINY, instant_agent(), tmp_path) as rt:
        deployment = MeasuredDeployment(rt, most=2)
        await deployment.warm_up()
        before = {session.id for session in await rt.aio.sessions.list()}
        loads = [await deployment.load(1, 3), await deployment.load(2, 4)]
        begun = {session.id for session in await rt.aio.sessions.list()} - before
    assert [load.turns for load in loads] == [3, 4]
    assert len(begun) == 1 + 2
    assert all(load.commits <= 2 for load in loads)


def test_the_command_says_how_busy_each_part_is_what_saturates_first_and_what_turns_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = run(capsys, "2", "1000", "100", "--model-s", "0.1", "--turns", "300")
    assert "Session actors" in printed
    assert "processes of agents" in printed
    assert "First bottleneck: " in printed
    assert "p99 " in printed
    assert "Saturated" not in printed


def test_the_command_says_when_more_is_asked_for_than_is_borne(capsys: pytest.CaptureFixture[str]) -> None:
    one_of_each = [f"--{part}=1" for part in ("webs", "runners", "shards", "agents")]
    assert "Saturated: 90,000 turns/s" in run(capsys, "1", "1000000", "90000", *one_of_each, "--model-s=0", "--turns=500")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["0", "10", "10"], "nodes is 0, and there is at least one"),
        (["1", "10", "many"], "the rate is 'many': give turns a second, or 'closed'"),
        (["1", "10"], "Missing argument 'rate'"),
        (["1", "ten", "10"], "Invalid value for 'sessions'"),
        (["2", "10", "10", "--databases", "0"], "give at least one database"),
    ],
)
def test_wrong_arguments_are_refused_with_what_is_wrong(
    arguments: Sequence[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert told in " ".join(capsys.readouterr().err.split())
