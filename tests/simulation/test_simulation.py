"""Simulations of whole deployments: seeds that once found something, and other ways to play them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.mutants.live import putting_in
from tests.simulation import world
from tests.simulation.__main__ import fails, smallest
from tests.simulation.faults import What
from tests.simulation.mutants.table import rows
from tests.simulation.mutants.worlds import MUTANTS
from tests.simulation.play import play
from tests.simulation.scenarios import Act, Node, Scenario
from tests.simulation.simulate import PLANS, case, check, plain, reference, run_seed, standing_by
from tests.simulation.virtual_loop import EndlessError, VirtualLoop
from tests.simulation.worlds import WORLDS

SEEDS = 300
PART = 15

ROOT = Path(__file__).parents[2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(10773, id="a Session actor is lost that owes the end of a turn to the store"),
        pytest.param(10792, id="the same, with an interruption"),
        pytest.param(11723, id="a turn that was refused, and is on disk, is joined before its end is"),
        pytest.param(11876, id="a turn is closed at a Session actor that cannot read its log yet"),
        pytest.param(13775, id="a new Runner resumes a turn while the store takes nothing"),
        pytest.param(15740, id="the same, with a store that is away"),
        pytest.param(3661, id="a turn is answered that is paused, which the store does not know yet"),
        pytest.param(3248, id="a paused turn is cancelled while an answer opens it"),
        pytest.param(4067, id="a turn is cancelled while the store takes nothing"),
        pytest.param(17926, id="an agent is lost with the last event of a turn, which the store does not take"),
        pytest.param(595, id="a turn is cancelled whose Runner was lost, before that is started again"),
        pytest.param(610, id="a new Session actor has a turn resumed whose end is on its way"),
        pytest.param(2110, id="a Session actor is lost in the midst of a commit, with more calls behind it"),
    ],
)
def test_what_once_did_not_hold_does(seed: int) -> None:
    assert check(plain(seed))[0] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(560, id="a turn in line is followed while the turn before it streams an answer"),
        pytest.param(1385, id="a reader learns from the log that a write with a streamed answer was stored"),
        pytest.param(869, id="an agent fails by the store before it has the result of a call, and the agent above goes on"),
        pytest.param(987, id="a turn that was deleted had timed out"),
        pytest.param(1380, id="a retried turn comes to the limit of its model calls once more"),
        pytest.param(1403, id="models are asked messages that the store does not take"),
        pytest.param(415, id="the last driver is lost while it reads the session"),
        pytest.param(692, id="agents side by side fail again in the same way when their turn is retried"),
        pytest.param(1028, id="a turn is retried whose graph has tried its nodes beyond the limit of calls"),
    ],
)
def test_what_once_did_not_hold_with_people_does(seed: int) -> None:
    assert run_seed(seed) == []


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(450, id="a Runner that was replaced is the first to speak to a new Session actor, and begins a turn"),
        pytest.param(284, id="a Runner whose clock is behind is told twice to take over"),
        pytest.param(33, id="a Runner that was replaced takes its place back from a new Session actor that has heard its heir"),
        pytest.param(201, id="a standby that leads opens a turn before it has heard its term"),
    ],
)
def test_what_once_did_not_hold_with_a_standby_does(seed: int) -> None:
    assert check(standing_by(seed, plain(seed)))[0] == []


@pytest.mark.full
@pytest.mark.sampled(full=5)
@pytest.mark.parametrize("first", range(0, SEEDS, 2 * PART))
def test_it_holds_as_well_when_turns_are_opened_one_at_a_time(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "OPENED_AT_ONCE", 1)
    failed = {seed: problems[0] for seed in range(first, first + PART) if (problems := run_seed(seed))}
    assert failed == {}


def digests(seeds: range) -> list[int]:
    return [check(case(seed), reference(seed // PLANS)[1])[2].digest() for seed in seeds]


@pytest.mark.full
def test_a_seed_does_the_same_steps_again_also_in_another_process() -> None:
    seeds = range(8, 12)
    program = f"from tests.simulation.test_simulation import digests; print(digests(range({seeds.start}, {seeds.stop})))"
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT)}
    other = subprocess.run([sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    mine = digests(seeds)
    assert digests(seeds) == mine
    assert other.stdout.split("\n")[-2] == str(mine)
    assert len(set(mine)) == len(mine)


@pytest.mark.full
def test_what_fails_is_made_small() -> None:
    name = "lost_runs_begin_anew"
    given = plain(rows()[name].seeds[0])
    with putting_in(MUTANTS[name].mutant):
        small = smallest(WORLDS["deployments"], given, given.seed)
        assert fails(WORLDS["deployments"], small, given.seed)
    assert check(small)[0] == []
    assert len(small.plan.faults) <= 2
    assert sum(1 for _ in small.scenario.root.all()) <= 4


@pytest.mark.full
def test_many_things_go_wrong() -> None:
    victims = {"session", "runner", "agents", "agent", "sender", "receiver", "driver"}
    whats = {*get_args(What)}
    kinds: set[tuple[str, str]] = set()
    # What is refused each time is not played at all.
    deeds = {"append_event", "archive", "attach", "cancel", "delete", "fork", "get", "prune", "retry", "rewind", "run"}
    done: set[str] = set()
    for seed in range(0, SEEDS, 3):
        _, result, _ = check(case(seed), reference(seed // PLANS)[1])
        kinds.update((fault.what, fault.who.split()[0] if fault.who else "") for _, fault in result.fired)
        done.update(ask.what for ask in result.history.asks if ask.kind in ("done", "end"))
        if {what for what, _ in kinds} >= whats and {who for what, who in kinds if what == "kill"} >= victims and done >= deeds:
            break
    assert done >= deeds
    assert {who for what, who in kinds if what == "kill"} >= victims
    assert {what for what, _ in kinds} == whats


@pytest.mark.soak
def test_other_drivers_follow_turns_in_line_and_answer_calls_that_are_answered() -> None:
    wanted = {"follow": {"Finished", "InvocationNotFoundError"}, "answer": {"Finished", "TurnStateError"}}
    ends: dict[str, set[str]] = {how: set() for how in wanted}
    for seed in range(SEEDS // 2):
        _, result, _ = check(case(seed), reference(seed // PLANS)[1])
        for told in result.asks:
            ends.get(told.how, set()).add(told.ended)
        if all(ends[how] >= seen for how, seen in wanted.items()):
            break
    assert all(ends[how] >= seen for how, seen in wanted.items()), ends


def test_what_people_prune_and_delete_is_gone_and_a_fork_is_made_anew() -> None:
    forks = [Act(deed="fork", after_s=1.0), Act(deed="delete", after_s=2.0, in_fork=True), Act(deed="fork", after_s=3.0)]
    turns, between = [[Act(deed="elsewhere", after_s=0.0)], []], [[Act(deed="prune", after_s=1.0)], forks]
    result, _ = play(Scenario(root=Node(kind="says", name="a"), turns=turns, between=between))
    assert result.problems == []
    assert [session for (_, session), _ in result.history.removed] == ["s1", "s2", "s3"]
    assert result.found["ada", "s3"].log


def test_a_loop_that_is_interrupted_while_it_ends_ends_all_the_same() -> None:
    async def lasting(steps: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            for _ in range(steps):
                await asyncio.sleep(0)
            raise EndlessError

    for steps in range(25):
        loop = VirtualLoop()
        loop.create_task(lasting(steps))
        loop.run_until_complete(asyncio.sleep(0))
        loop.forget()
        assert loop.is_closed()
