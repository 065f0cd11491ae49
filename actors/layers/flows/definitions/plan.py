"""A flow in the form in which it is sent to actors: checked, with names instead of agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from actors.definitions.tools.base import Tool
from actors.layers.flows.definitions.context import TaskContext
from actors.layers.flows.definitions.results import ResultType
from actors.layers.flows.rules.turn_order import TurnRules
from actors.layers.flows.rules.until import Condition
from actors.messages.flow import TaskNode


@dataclass(frozen=True)
class FlowPlan:
    """What the controller and the agents of a flow need of its definition.

    Attributes:
        goal: the names of the tasks to complete.
        results: the type of each task's result, by task.
        tools: the tools that tasks bring along, by task.
        max_rounds: rounds of one run; 0 is no limit.
        max_llm_calls: model calls of one run; 0 is no limit.
        context: what agents are shown with the objectives of tasks, by task.
        until: when to stop before all tasks are done; None: never.
    """

    name: str
    nodes: tuple[TaskNode, ...]
    goal: tuple[str, ...]
    results: Mapping[str, ResultType]
    rules: TurnRules
    tools: Mapping[str, tuple[Tool, ...]] = field(default_factory=dict)
    max_rounds: int = 0
    max_llm_calls: int = 0
    context: Mapping[str, TaskContext] = field(default_factory=dict)
    until: Condition | None = None

    @property
    def asking_agents(self) -> tuple[str, ...]:
        """The agents of interactive tasks."""
        return tuple(dict.fromkeys(agent for node in self.nodes if node.interactive for agent in node.agents))

    def result_type(self, node: TaskNode) -> ResultType:
        """The type of a task's result. A task that was created while the flow ran has labels, or else a text as its result."""
        known = self.results.get(node.name)
        if known is not None:
            return known
        return ResultType(node.name, list(node.labels) if node.labels else str)


@dataclass(frozen=True)
class FlowPlans:
    """The definitions of flows that the agents of a process find: see `Context.reach`.

    Attributes:
        find: returns one by its name. Raises FlowNotFoundError, ActorLostError.
    """

    find: Callable[[str], Awaitable[FlowPlan]]
