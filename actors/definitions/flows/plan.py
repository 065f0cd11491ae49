"""A flow as it travels to the actors that carry it out: names instead of agents, all of it checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from actors.definitions.flows.results import ResultType
from actors.definitions.tools.base import Tool
from actors.errors import FlowNotFoundError
from actors.messages.flow import TaskNode
from actors.rules.flow.turn_order import TurnRules


@dataclass(frozen=True)
class FlowPlan:
    """What a flow's controller and agents need of its definition.

    Attributes:
        name: the flow's.
        nodes: its tasks.
        goal: those that are to be completed.
        results: the type of each task's result; `tools`: what each brings along.
        rules: how agents are chosen.
        max_rounds, max_llm_calls: limits of a run; 0 is none.
    """

    name: str
    nodes: tuple[TaskNode, ...]
    goal: tuple[str, ...]
    results: Mapping[str, ResultType]
    rules: TurnRules
    tools: Mapping[str, tuple[Tool, ...]] = field(default_factory=dict)
    max_rounds: int = 0
    max_llm_calls: int = 0

    def result_type(self, node: TaskNode) -> ResultType:
        """The type of a task's result; also of one that was made while the flow ran."""
        known = self.results.get(node.name)
        if known is not None:
            return known
        return ResultType(node.name, list(node.labels) if node.labels else str)


PlanSource = Callable[[str], Awaitable[FlowPlan]]
"""Finds the definition of a flow by its name. Raises FlowNotFoundError, ActorLostError."""


async def no_plans(definition: str) -> FlowPlan:
    """The source of plans where there are none. Raises FlowNotFoundError."""
    raise FlowNotFoundError(definition)
