"""A flow: tasks that depend on each other, and the agents that work on them. Actors get it as a plan, with names for agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Never

import pydantic
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.definitions.agents.base import BaseAgent, ShownByChanges, wrongly_defined
from actors.definitions.agents.llm import LlmAgent
from actors.definitions.tools.base import Tool
from actors.errors import DefinitionError
from actors.errors.hints import did_you_mean
from actors.layers.flows.definitions.task import ResultOf, ResultType, Task, TaskContext
from actors.layers.flows.definitions.task_tools import refuse_taken_name
from actors.layers.flows.rules.board import cycle
from actors.layers.flows.rules.turn_order import Strategy, TurnRules
from actors.layers.flows.rules.until import Condition, NamedTask
from actors.messages.flow import TaskNode


class Flow(ShownByChanges, BaseModel):
    """Tasks, and the agents that work on them. A definition is frozen, checked as a whole, and good for any number of runs.

    Dependencies and subtasks of the tasks belong to the flow without being listed.

    Args:
        tasks: the tasks, in the order in which agents are given them.

    Attributes:
        agents: LLM agents for the tasks that name none, as objects or as names of agents of the tree; by default all agents that
            tasks name.
        name: an identifier, for events and errors; default "flow".
        description: what the flow is good for, when it is an agent or a tool; default "".
        turn_strategy: which agent begins a turn when the last one has named none. "round_robin", the default, takes the next
            in order; "single" and "popcorn" keep the last one; "moderated" takes the moderator; "random" draws one;
            "most_busy" takes the one with most ready tasks. An agent without a ready task is never chosen.
        moderator: the agent that "moderated" comes back to; by default the first agent.
        max_parallel: the number of agents that may work at the same time; default None, for no limit.
        max_rounds: rounds, each a model call with its tool calls, of all agents together; a run that needs more fails. Default
            1,000; 0 is no limit.
        max_llm_calls: model calls of all agents together, those not counted that a callback answered; a run that needs more
            fails. Default 0, for no limit.
        until: stops the flow early, for instance `AnyComplete(2) | MaxLLMCalls(15)`: rounds under way are finished, and tasks
            that are not done then are skipped. Default None.

    Raises:
        DefinitionError: a field is wrong, a name is given twice or not known, an agent cannot work on tasks, or tasks need each
            other in a circle.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    tasks: Sequence[Task]
    agents: Sequence[BaseAgent | str] = ()
    name: str = "flow"
    description: str = ""
    turn_strategy: Strategy = "round_robin"
    moderator: BaseAgent | str | None = None
    max_parallel: int | None = Field(default=None, gt=0)
    max_rounds: int = Field(default=1_000, ge=0)
    max_llm_calls: int = Field(default=0, ge=0)
    until: Condition | None = None

    def __init__(self, tasks: Sequence[Task] = (), /, *unnamed: Never, **fields: object) -> None:
        if unnamed:
            raise DefinitionError("Flow takes only its tasks by place: write Flow(tasks, agents=…)")
        if tasks:
            fields["tasks"] = tasks
        fields.setdefault("tasks", ())
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise DefinitionError(wrongly_defined(type(self), fields.get("name", "flow"), error)) from error

    @pydantic.field_validator("until", mode="before")
    @classmethod
    def _is_condition(cls, given: object) -> object:
        if given is not None and not isinstance(given, Condition):
            raise ValueError(f"it is a condition such as AnyComplete(2) | MaxLLMCalls(15), not {given!r}")
        return given

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> Flow:
        if not self.name.isidentifier():
            raise ValueError(f"the name {self.name!r} is no identifier: use letters, digits and underscores, and no digit first")
        _ = self.plan
        return self

    @cached_property
    def plan(self) -> FlowPlan:
        """The flow in the form in which it is sent to actors. Raises ValueError when tasks and agents do not fit together."""
        tasks, names = self._by_name, tuple(self.members)
        if tasks and not names:
            raise ValueError("it has tasks but no agents: give agents to the flow or to its tasks")
        nodes = tuple(self._node(name, task) for name, task in tasks.items())
        _refuse_cycles(nodes)
        for node in nodes:
            _refuse_clashes(tasks[node.name], [self.members[agent] for agent in node.agents])
        moderator = _name(self.moderator) if self.moderator is not None else ""
        if moderator and moderator not in names:
            raise ValueError(f"the moderator {moderator!r} is none of its agents.{did_you_mean(moderator, names)}")
        return FlowPlan(
            name=self.name,
            nodes=nodes,
            goal=tuple(tasks),
            results={name: ResultType(name, task.result_type) for name, task in tasks.items()},
            tools={name: tuple(task.tools) for name, task in tasks.items() if task.tools},
            rules=TurnRules(agents=names, strategy=self.turn_strategy, moderator=moderator, max_parallel=self.max_parallel),
            max_rounds=self.max_rounds,
            max_llm_calls=self.max_llm_calls,
            context={name: self._context(task) for name, task in tasks.items() if task.context},
            until=self._named_until(),
        )

    def _context(self, task: Task) -> TaskContext:
        return {key: ResultOf(self.name_of(value)) if isinstance(value, Task) else value for key, value in task.context.items()}

    def _named_until(self) -> Condition | None:
        try:
            return self.until.named(self.name_of) if self.until is not None else None
        except DefinitionError as error:
            raise ValueError(f"until: {error}") from error

    @cached_property
    def members(self) -> Mapping[str, BaseAgent | None]:
        """All agents of the flow by name, in order; None for one that is given by its name alone."""
        found: dict[str, BaseAgent | None] = {}
        of_tasks = [agent for task in self._by_name.values() for agent in task.agents]
        for given in (*self.agents, *of_tasks):
            name = _name(given)
            agent = given if isinstance(given, BaseAgent) else None
            if agent is not None:
                _refuse_agent(agent)
                if found.get(name) not in (None, agent):
                    raise ValueError(f"two agents are called {name!r}")
            found[name] = agent or found.get(name)
        own = dict.fromkeys(map(_name, self.agents))
        unknown = [given for given in of_tasks if own and isinstance(given, str) and given not in own]
        if unknown:
            raise ValueError(f"a task names agent {unknown[0]!r}, which the flow does not have.{did_you_mean(unknown[0], own)}")
        return found

    @property
    def _by_name(self) -> Mapping[str, Task]:
        """All tasks by name; before each listed task come those that it needs and that are not listed earlier."""
        return self._named[0]

    @cached_property
    def _named(self) -> tuple[Mapping[str, Task], Mapping[int, str]]:
        """All tasks by name; and the names of the task objects by their ids."""
        tasks: dict[str, Task] = {}
        names: dict[int, str] = {}
        listed = list(_all_tasks(self.tasks))
        taken = {task.name for task in listed}
        for task in listed:
            name = task.name
            if not name:
                position = len(tasks) + 1
                while (name := f"task_{position}") in taken | tasks.keys():
                    position += 1
            if name in tasks:
                raise ValueError(f"two tasks are called {name!r}")
            tasks[name] = task
            names[id(task)] = name
        return tasks, names

    def name_of(self, task: NamedTask | str) -> str:
        """The name of a task of the flow, given as object or name. Raises DefinitionError when the flow has no such task."""
        known, names = self._named
        name = task if isinstance(task, str) else names.get(id(task), task.name)
        if name not in known:
            raise DefinitionError(f"flow {self.name!r} has no task {name!r}.{did_you_mean(name, known)}")
        return name

    def _node(self, name: str, task: Task) -> TaskNode:
        known, names = self._named

        def name_in(field: str, other: Task | str) -> str:
            found = other if isinstance(other, str) else names[id(other)]
            if found not in known:
                raise ValueError(f"task {name!r}: {field} names {found!r}, which is no task of it.{did_you_mean(found, known)}")
            return found

        parents = [names[id(other)] for other in known.values() if any(part is task for part in other.subtasks)]
        if task.parent is not None:
            parents.append(name_in("parent", task.parent))
        if len(set(parents)) > 1:
            raise ValueError(f"task {name!r} is a part of two tasks: {' and '.join(map(repr, sorted(set(parents))))}")
        agents = tuple(dict.fromkeys(map(_name, task.agents or self.agents or tuple(self.members))))
        ending = tuple(dict.fromkeys(map(_name, task.completion_agents)))
        for agent in ending:
            if agent not in agents:
                raise ValueError(
                    f"task {name!r}: completion_agents names {agent!r}, which is none of its agents."
                    f"{did_you_mean(agent, agents)} Its agents: {', '.join(agents)}"
                )
        needed = [*task.depends_on, *(value for value in task.context.values() if isinstance(value, Task))]
        return TaskNode(
            name=name,
            objective=task.objective,
            agents=agents,
            depends_on=tuple(dict.fromkeys(name_in("depends_on", other) for other in needed)),
            parent=parents[0] if parents else None,
            on_failed_dependency=task.on_failed_dependency,
            max_llm_calls=task.max_llm_calls,
            instructions=task.instructions,
            interactive=task.interactive,
            completion_agents=ending,
        )


def _all_tasks(tasks: Sequence[Task]) -> Iterator[Task]:
    """Every task once, after the tasks that it needs."""
    seen: set[int] = set()
    # An explicit stack, for a chain of tasks may be longer than Python's recursion limit.
    waiting: list[tuple[Task, bool]] = [(task, False) for task in reversed(tasks)]
    while waiting:
        task, has_needs = waiting.pop()
        if has_needs:
            yield task
        elif id(task) not in seen:
            seen.add(id(task))
            waiting.append((task, True))
            needed = [*task.depends_on, *task.context.values(), *task.subtasks]
            waiting += [(other, False) for other in reversed(needed) if isinstance(other, Task)]
            if isinstance(task.parent, Task):
                waiting.insert(0, (task.parent, False))


def _refuse_cycles(nodes: Sequence[TaskNode]) -> None:
    needs = {node.name: list(node.depends_on) for node in nodes}
    for node in nodes:
        if node.parent is not None:
            needs[node.parent].append(node.name)
    found = cycle(needs)
    if found:
        raise ValueError(f"its tasks need each other in a circle: {' needs '.join(found)}")


def _refuse_agent(agent: BaseAgent) -> None:
    if not isinstance(agent, LlmAgent):
        raise ValueError(f"agent {agent.name!r} is a {type(agent).__name__}: only LLM agents can work on tasks")
    for tool in agent.tools:
        try:
            refuse_taken_name(tool)
        except ValueError as error:
            raise ValueError(f"agent {agent.name!r}: {error}") from error


def _refuse_clashes(task: Task, agents: Sequence[BaseAgent | None]) -> None:
    """Check that no agent of a task has another tool with the name of one that the task brings along."""
    for brought in task.tools:
        for agent in agents:
            own = [tool for tool in getattr(agent, "tools", ()) if tool.name == brought.name]
            if agent is not None and own and own[0] is not brought:
                raise ValueError(f"agent {agent.name!r} and a task of it have two tools called {brought.name!r}: rename one")


def _name(agent: BaseAgent | str) -> str:
    return agent if isinstance(agent, str) else agent.name


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
