"""Making a case that fails small: faults and parts of the scenario are left out as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from tests.simulation.faults import CALM, COMMIT_S, FaultPlan
from tests.simulation.scenarios import Node, Scenario
from tests.simulation.simulate import Case

T = TypeVar("T")

TRIES = 600
"""Cases that are played at most."""

replace: Callable[..., Any] = msgspec.structs.replace


def shrunk(given: Case, fails: Callable[[Case], bool], tries: int = TRIES) -> Case:
    """The smallest case found that still fails."""
    smallest = given
    candidates = _smaller(smallest)
    for _ in range(tries):
        candidate = next(candidates, None)
        if candidate is None:
            break
        if fails(candidate):
            smallest = candidate
            candidates = _smaller(smallest)
    return smallest


def _smaller(given: Case) -> Iterator[Case]:
    """Cases that are a little smaller, the largest steps first."""
    for plan in _smaller_plans(given.plan):
        yield replace(given, plan=plan)
    for scenario in _smaller_scenarios(given.scenario):
        yield replace(given, scenario=scenario)
    if (rounded := _rounded(given)) != given:
        yield rounded


def _smaller_plans(plan: FaultPlan) -> Iterator[FaultPlan]:
    for faults in _without_one(plan.faults):
        yield replace(plan, faults=faults)
    if plan.network != CALM:
        yield replace(plan, network=CALM)
        if plan.network.slow:
            yield replace(plan, network=replace(plan.network, slow=0))
    if plan.store_s > COMMIT_S:
        yield replace(plan, store_s=COMMIT_S)
    for place, fault in enumerate(plan.faults):
        if fault.kind and fault.after_s:
            yield replace(plan, faults=_with(plan.faults, place, replace(fault, after_s=0.0)))


def _smaller_scenarios(scenario: Scenario) -> Iterator[Scenario]:
    if len(scenario.turns) > 1:
        for place, turns in enumerate(_without_one(scenario.turns)):
            between = [*scenario.between[:place], *scenario.between[place + 1 :]]
            yield replace(scenario, turns=turns, between=between)
    for place, acts in enumerate(scenario.turns):
        for fewer in _without_one(acts):
            yield replace(scenario, turns=_with(scenario.turns, place, fewer))
    for place, acts in enumerate(scenario.between):
        for fewer in _without_one(acts):
            yield replace(scenario, between=_with(scenario.between, place, fewer))
    for root in _smaller_nodes(scenario.root):
        yield replace(scenario, root=root)
    for field, plain in (("groups", 0), ("streams", False), ("timeout_s", 0.0), ("max_calls", 0)):
        if getattr(scenario, field) != plain:
            yield replace(scenario, **{field: plain})


def _smaller_nodes(node: Node) -> Iterator[Node]:
    yield from node.children
    for children in _without_one(node.children):
        if children or node.kind == "llm":
            gone = {child.name for child in node.children} - {child.name for child in children}
            yield replace(node, children=children, steps=[step for step in node.steps if step.to not in gone])
    for place, child in enumerate(node.children):
        for smaller in _smaller_nodes(child):
            renamed = [
                replace(step, to=smaller.name) if step.to == child.name and smaller.kind == "llm" else step for step in node.steps
            ]
            if all(step.to != child.name for step in renamed) or smaller.name == child.name:
                yield replace(node, children=_with(node.children, place, smaller), steps=renamed)
    if node.experts:
        yield replace(node, experts=[], steps=[step for step in node.steps if step.does != "expert"])
    for steps in _without_one(node.steps):
        if {step.to for step in node.steps if step.does == "expert"} <= {step.to for step in steps}:
            yield replace(node, steps=steps)
    for place, step in enumerate(node.steps):
        for field, plain in (("takes_s", 0.0), ("often", 1)):
            if getattr(step, field) != plain:
                yield replace(node, steps=_with(node.steps, place, replace(step, **{field: plain})))
    for tasks in _without_one(node.tasks[:-1]):
        yield replace(node, tasks=[[need for need in needs if need < len(tasks)] for needs in tasks] or [[]])
    for field, default in (("fails", 0), ("supervision", ""), ("thinks_s", 0.0), ("pieces", 0), ("absorbs", False)):
        if getattr(node, field) != default:
            yield replace(node, **{field: default})
    if node.times > 1:
        yield replace(node, times=node.times - 1)


def _rounded(value: Any) -> Any:
    """The same with short numbers."""
    if isinstance(value, float):
        return float(f"{value:.2g}")
    if isinstance(value, list | tuple):
        return type(value)(map(_rounded, value))
    if isinstance(value, msgspec.Struct):
        return replace(value, **{name: _rounded(getattr(value, name)) for name in value.__struct_fields__})
    return value


def _without_one(items: Sequence[T]) -> Iterator[list[T]]:
    for place in range(len(items)):
        yield [*items[:place], *items[place + 1 :]]


def _with(items: Sequence[T], place: int, item: T) -> list[T]:
    return [*items[:place], item, *items[place + 1 :]]
