"""One seed: its scenario, its faults, and what does not hold."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from tests.simulation.cluster import Trace
from tests.simulation.faults import (
    FaultPlan,
    failing_once,
    fault_plan,
    with_breaks,
    with_faults_at_writes,
    with_losses,
    with_lost_answers,
    with_replacements,
    with_slow_store,
    with_standby,
)
from tests.simulation.invariants import problems
from tests.simulation.people import with_impatience, with_leavers, with_people
from tests.simulation.play import Result, play
from tests.simulation.scenarios import Scenario, scenario

PLANS = 4
"""So many seeds share a scenario, and the run of it without faults."""


class Case(msgspec.Struct, frozen=True):
    """What one simulation is made of: a seed's, or what is left of it."""

    seed: int
    scenario: Scenario
    plan: FaultPlan


@lru_cache(maxsize=8)
def reference(number: int) -> tuple[Scenario, Result]:
    """A scenario, and what it leaves without faults."""
    return _played(with_impatience(with_leavers(with_people(scenario(number), number), number), number), number)


@lru_cache(maxsize=8)
def plain_reference(number: int) -> tuple[Scenario, Result]:
    """The same without people."""
    return _played(scenario(number), number)


def _played(made: Scenario, number: int) -> tuple[Scenario, Result]:
    return made, play(made, seed=number)[0]


def case(seed: int) -> Case:
    """The case of a seed."""
    given, right = _case(seed, *reference(seed // PLANS)), reference(seed // PLANS)[1]
    if given.scenario == scenario(seed // PLANS):
        return given
    plan = with_breaks(with_faults_at_writes(given.plan, seed, right.moments), seed, right.messages)
    plan = with_lost_answers(with_slow_store(plan, seed, right.messages), seed, right.messages)
    return msgspec.structs.replace(given, plan=failing_once(with_losses(plan, seed, right.messages)))


def plain(seed: int) -> Case:
    """The case of a seed without people, as it was before there were any: of what was found then."""
    return _case(seed, *plain_reference(seed // PLANS))


def _case(seed: int, made: Scenario, right: Result) -> Case:
    return Case(seed, made, fault_plan(seed, right.messages, right.moments, [node.name for node in made.root.all()]))


def replacing(seed: int) -> Case:
    """The case of a seed with Session actors that live on beside their heirs, where that of the seed loses them."""
    made = case(seed)
    return msgspec.structs.replace(made, plan=with_replacements(made.plan))


def standing_by(seed: int, made: Case | None = None) -> Case:
    """The case of a seed, or another one, with a Runner that has a standby, and loses its place to it."""
    made = made or case(seed)
    return msgspec.structs.replace(made, plan=with_standby(made.plan, seed))


def check(given: Case, right: Result | None = None) -> tuple[list[str], Result, Trace]:
    """Play a case. Returns what does not hold.

    Args:
        right: what the scenario leaves without faults, if that is known.
    """
    if right is None:
        right = play(given.scenario, seed=given.seed)[0]
    wrong = problems(given.scenario, right)
    if wrong:
        return [f"without faults: {each}" for each in wrong], right, Trace()
    result, trace = play(given.scenario, given.plan, given.seed)
    return problems(given.scenario, result), result, trace


def played(given: Case, _: int = 0) -> Result:
    """What a case leaves, with all that does not hold. The run without faults of a seed's scenario is made once."""
    scenario, right = reference(given.seed // PLANS)
    problems, result, _trace = check(given, right if given.scenario == scenario else None)
    # A result that fails without faults is kept for the other seeds of its scenario.
    return msgspec.structs.replace(result, problems=problems)


def run_seed(seed: int) -> list[str]:
    """What does not hold for a seed."""
    return played(case(seed)).problems
