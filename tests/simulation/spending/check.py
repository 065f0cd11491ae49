"""One seed with budgets: its scenario, its faults, and by how much its budget is overspent."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import msgspec

from actors import Event
from actors.errors import BudgetExceededError
from actors.rules.accounting.report import day_of
from tests.simulation.faults import fault_plan
from tests.simulation.invariants import problems
from tests.simulation.play import NO_FAULTS, Result, play
from tests.simulation.scenarios import Scenario, scenario
from tests.simulation.simulate import Case
from tests.support.stores.logged_usage import fold

DAILY = ("user_daily_budget", "app_daily_budget")
BUDGETS = ("budget", "session_budget", "user_daily_budget", "app_daily_budget")


def spending(seed: int) -> Case:
    """The case of a seed. One in three has no faults."""
    chance = random.Random(f"spending {seed}")
    made = msgspec.structs.replace(scenario(seed), budget=chance.choice(BUDGETS), llm_calls=chance.randint(1, 6))
    if made.budget in DAILY and chance.randrange(2):
        # The budget is likely to be used up by the turns before.
        made = msgspec.structs.replace(made, turns=(*made.turns, ()), midnight=len(made.turns), llm_calls=chance.randint(1, 3))
    if chance.randrange(3) == 0:
        return Case(seed, made, NO_FAULTS)
    right = play(made, seed=seed)[0]
    return Case(seed, made, fault_plan(seed, right.messages, right.moments, [node.name for node in made.root.all()]))


def check(seed: int) -> list[str]:
    """What does not hold for a seed."""
    case = spending(seed)
    result, _ = play(case.scenario, case.plan, seed)
    return [*problems(case.scenario, result, None), *overspent(case.scenario, result), *held_back(case.scenario, result)]


def overspent(given: Scenario, result: Result) -> Iterator[str]:
    """By one call of each agent at most, and by none where nothing was lost."""
    agents = sum(1 for _ in given.root.all()) + sum(len(node.tasks) for node in given.root.all())
    most = given.llm_calls + (agents if result.fired else 0)
    for whose, events in _bounded(given, result):
        calls = sum(amounts.llm_calls for amounts in fold(events).values())
        if calls > most:
            yield f"{calls} calls of {whose}, whose {given.budget} has {given.llm_calls}; {len(result.fired)} faults"


def _bounded(given: Scenario, result: Result) -> Iterator[tuple[str, Sequence[Event]]]:
    """What one budget bounds."""
    if given.midnight and given.budget in DAILY:
        for day, events in _by_day(result).items():
            yield f"the turns that began on {day}", events
        return
    if given.budget != "budget":
        yield "the session", result.log
        return
    for turn in result.turns:
        yield turn, [event for event in result.log if event.invocation_id == turn]


def _by_day(result: Result) -> dict[str, list[Event]]:
    """The events of turns by the day on which these began."""
    began: dict[str, str] = {}
    days: dict[str, list[Event]] = {}
    for event in result.log:
        day = began.setdefault(event.invocation_id, day_of(event.timestamp))
        days.setdefault(day, []).append(event)
    return days


def held_back(given: Scenario, result: Result) -> Iterator[str]:
    """No turn of a new day is refused its first call, where nothing was lost."""
    days = [*_by_day(result).items()] if given.midnight and not result.fired else []
    for day, events in days[1:]:
        turns = {event.invocation_id for event in events}
        refused = [told.turn for told in result.told if told.turn in turns and told.ended == BudgetExceededError.__name__]
        if refused and not any(amounts.llm_calls for amounts in fold(events).values()):
            yield f"{refused} of {day} had no call of the {given.llm_calls} that its {given.budget} has each day"
