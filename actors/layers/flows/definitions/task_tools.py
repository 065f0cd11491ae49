"""The tools by which an agent finishes tasks, gives them up, hands over, creates new ones and asks (semantics.md section 7).

All but the last write into the `RoundDecisions` of one round, which are stored with the event that answers the calls.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence

import pydantic

from actors.definitions.schemas import json_schema
from actors.definitions.tools.base import Tool, Toolset
from actors.definitions.tools.context import ToolContext
from actors.errors.hints import did_you_mean, problems
from actors.layers.flows.rules.board import Board, cycle
from actors.layers.flows.rules.prompt import (
    ASK_USER,
    CREATE_TASKS,
    END_TURN,
    NAME_LENGTH,
    fail_tool,
    is_controllers,
    succeed_tool,
)
from actors.messages.flow import TaskChange, TaskNode
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue
from actors.messages.llm import FunctionDeclaration

MAX_CALLS_OF_A_TASK = 50
"""Model calls after which a task fails that says nothing else. A model that never finishes its task would use up the turn's."""


class RoundDecisions:
    """What an agent decides in one round about its tasks.

    Args:
        tasks: the tasks that it works on.
        board: how far the flow is.
        agents: all agents of the flow.

    Attributes:
        changes: new statuses, by task.
        created: new tasks, by name.
        ends_turn: the agent ends its turn.
        next_agent: the agent that it named to go on; None when it named none.
    """

    def __init__(self, tasks: Sequence[str], board: Board, agents: Sequence[str]) -> None:
        self.tasks = tuple(tasks)
        self.board = board
        self.agents = tuple(agents)
        self.changes: dict[str, TaskChange] = {}
        self.created: dict[str, TaskNode] = {}
        self.ends_turn = False
        self.next_agent: str | None = None

    def finish(self, task: str, change: TaskChange) -> None:
        """Record how a task has ended. Raises ValueError when it has ended already or was given parts in this round."""
        if task in self.changes:
            raise ValueError(f"task {task!r} is {self.changes[task].status} already")
        parts = [node.name for node in self.created.values() if node.parent == task]
        if parts:
            raise ValueError(f"task {task!r} has parts that are still to be done: {', '.join(parts)}")
        self.changes[task] = change


class SucceedTool(Tool):
    """Finishes a task with its result.

    Args:
        decisions: where the result is recorded.
        task: the name of the task.
        schema: the JSON schema of the result; None for a task without one.
        check: returns the result in the form in which it is stored. Raises ValueError when it does not fit.
    """

    only_decides = True

    def __init__(
        self,
        decisions: RoundDecisions,
        task: str,
        schema: JsonMapping | None,
        check: Callable[[JsonValue], JsonValue],
    ) -> None:
        self.name = succeed_tool(task)
        self.description = f"The task `{task}` is done" + (": give its result." if schema is not None else ".")
        self._decisions = decisions
        self._task = task
        self._schema = schema
        self._check = check

    def declaration(self) -> FunctionDeclaration:
        """One argument, `result`, of the task's type; none for a task without a result."""
        if self._schema is None:
            return FunctionDeclaration(name=self.name, description=self.description)
        schema = dict(self._schema)
        definitions = schema.pop("$defs", None)
        parameters = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
        if definitions is not None:
            parameters["$defs"] = definitions
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Check the result and record it. Raises ValueError when it is missing or does not fit."""
        if self._schema is not None and "result" not in args:
            raise ValueError(f"{self.name} needs the argument result")
        self._decisions.finish(self._task, TaskChange(status="successful", result=self._check(args.get("result"))))
        return {"status": "successful"}


class FailTool(Tool):
    """Gives a task up."""

    only_decides = True

    def __init__(self, decisions: RoundDecisions, task: str) -> None:
        self.name = fail_tool(task)
        self.description = f"The task `{task}` cannot be done: say why."
        self._decisions = decisions
        self._task = task

    def declaration(self) -> FunctionDeclaration:
        """One required text, `reason`."""
        reason = {"type": "string", "description": "Why it cannot be done."}
        parameters = {"type": "object", "properties": {"reason": reason}, "required": ["reason"]}
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Record the reason. Raises ValueError without one."""
        reason = args.get("reason")
        if not isinstance(reason, str) or not reason:
            raise ValueError(f"{self.name} needs the argument reason, a text")
        self._decisions.finish(self._task, TaskChange(status="failed", reason=reason))
        return {"status": "failed"}


class EndTurnTool(Tool):
    """Ends the agent's turn without finishing a task, and may name the agent that goes on."""

    only_decides = True
    name = END_TURN
    description = "End your turn without finishing a task, and let another agent go on."

    def __init__(self, decisions: RoundDecisions, peers: Sequence[str]) -> None:
        self._decisions = decisions
        self._peers = tuple(peers)

    def declaration(self) -> FunctionDeclaration:
        """One optional name, out of the agents that can go on."""
        named = {"type": "string", "description": "Who goes on; leave it out if it does not matter.", "enum": list(self._peers)}
        parameters = {"type": "object", "properties": {"next_agent": named}}
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Record it. Raises ValueError when the agent named cannot go on."""
        named = args.get("next_agent")
        if named is not None and named not in self._peers:
            hint = did_you_mean(str(named), self._peers)
            raise ValueError(f"{named!r} cannot go on.{hint} These can: {', '.join(self._peers)}")
        self._decisions.ends_turn = True
        self._decisions.next_agent = named
        return {"next_agent": named} if named is not None else {"status": "ended"}


class AskUserTool(Tool):
    """Asks the user a question; the answer is the response to the call."""

    name = ASK_USER
    description = "Ask the user a question about your tasks, and wait for the answer."
    is_long_running = True

    def declaration(self) -> FunctionDeclaration:
        """One required text, `question`."""
        question = {"type": "string", "description": "What the user is asked."}
        parameters = {"type": "object", "properties": {"question": question}, "required": ["question"]}
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run(self, args: JsonObject, context: ToolContext) -> None:
        """Leave the answer to the user. Raises ValueError without a question."""
        question = args.get("question")
        if not isinstance(question, str) or not question.strip():
            raise ValueError(f"{self.name} needs the argument question, a text")


class _NewTask(pydantic.BaseModel):
    # Every process loads this module, and hardly any of them makes tasks.
    model_config = pydantic.ConfigDict(extra="forbid", defer_build=True)

    name: str = pydantic.Field(description="A short identifier: letters, digits and underscores.")
    objective: str = pydantic.Field(description="What is to be achieved, with all that whoever does it needs to know.")
    agents: list[str] = pydantic.Field([], description="Who may work on it; leave it out for anybody.")
    depends_on: list[str] = pydantic.Field(
        [], description="Names of tasks that have to be done before it: new ones, or ones that are there."
    )
    labels: list[str] = pydantic.Field(
        [], description="When the result is to be one of some texts: these. Otherwise it is a text."
    )


class _NewTasks(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", defer_build=True)

    tasks: list[_NewTask] = pydantic.Field(description="The tasks to make.")
    part_of: str | None = pydantic.Field(
        None, description="The task of yours that they are parts of; it goes on when they are done."
    )


class CreateTasksTool(Tool):
    """Creates tasks while the flow runs. Give it to an agent that plans, or to a task that needs planning.

    Args:
        decisions: where the tasks are recorded; None outside of a round.
    """

    only_decides = True
    name = CREATE_TASKS
    description = "Make new tasks for the agents of this flow. They are worked on at once, or as soon as what they need is done."

    def __init__(self, decisions: RoundDecisions | None = None) -> None:
        self._decisions = decisions

    def at(self, decisions: RoundDecisions) -> CreateTasksTool:
        """A copy of the tool that works in one round."""
        bound = copy.copy(self)
        bound._decisions = decisions
        return bound

    def declaration(self) -> FunctionDeclaration:
        """A list of tasks, and the task that they are parts of, if any."""
        return FunctionDeclaration(name=self.name, description=self.description, parameters=json_schema(_NewTasks))

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Check the tasks and record them, all or none. Raises ValueError when one is wrong, or outside of a flow."""
        decisions = self._decisions
        if decisions is None:
            raise ValueError(f"{self.name} works only in a flow")
        try:
            asked = _NewTasks.model_validate(args)
        except pydantic.ValidationError as error:
            raise ValueError(f"wrong arguments for {self.name}: {problems(error)}") from error
        created = _checked_nodes(asked, decisions)
        decisions.created.update((node.name, node) for node in created)
        return {"created": [node.name for node in created]}


def _checked_nodes(asked: _NewTasks, decisions: RoundDecisions) -> list[TaskNode]:
    """The new tasks. Raises ValueError when a name, an agent or a dependency is wrong."""
    _check_new_tasks(asked, decisions)
    nodes = [
        TaskNode(
            name=task.name,
            objective=task.objective,
            agents=tuple(dict.fromkeys(task.agents)) or decisions.agents,
            depends_on=tuple(dict.fromkeys(task.depends_on)),
            parent=asked.part_of,
            max_llm_calls=MAX_CALLS_OF_A_TASK,
            labels=tuple(dict.fromkeys(task.labels)),
        )
        for task in asked.tasks
    ]
    needs = {name: list(decisions.board.needs(name)) for name in decisions.board.nodes}
    for node in (*decisions.created.values(), *nodes):
        needs[node.name] = list(node.depends_on)
        if node.parent is not None:
            needs[node.parent].append(node.name)
    found = cycle(needs)
    if found:
        raise ValueError(f"these tasks need each other in a circle: {' needs '.join(found)}")
    return nodes


def _check_new_tasks(asked: _NewTasks, decisions: RoundDecisions) -> None:
    parent = asked.part_of
    if parent is not None and (parent not in decisions.tasks or parent in decisions.changes):
        raise ValueError(f"part_of must be a task that you work on: {', '.join(decisions.tasks)}; not {parent!r}")
    new = [task.name for task in asked.tasks]
    if not new:
        raise ValueError("there are no tasks to make")
    known = {*decisions.board.nodes, *decisions.created, *new}
    for task in asked.tasks:
        if not (task.name.isidentifier() and task.name.isascii() and len(task.name) <= NAME_LENGTH):
            raise ValueError(f"{task.name!r} cannot be a name: use up to {NAME_LENGTH} letters, digits and underscores")
        if task.name in decisions.board.nodes or task.name in decisions.created or new.count(task.name) > 1:
            raise ValueError(f"there is a task {task.name!r} already: use another name")
        _refuse_unknown(task.agents, decisions.agents, f"task {task.name!r}: agent")
        _refuse_unknown(task.depends_on, known, f"task {task.name!r}: depends_on")


def _refuse_unknown(names: Iterable[str], known: Iterable[str], what: str) -> None:
    valid = sorted(known)
    for name in names:
        if name not in valid:
            raise ValueError(f"{what} {name!r} is not known.{did_you_mean(name, valid)} There are: {', '.join(valid)}")


create_tasks = CreateTasksTool()
"""Lets an agent create tasks while the flow runs."""


def refuse_taken_name(tool: Tool | Toolset) -> None:
    """Check that a tool can be used in flows. Raises ValueError when its name is one of the flows' own tools."""
    if is_controllers(tool.name) and not isinstance(tool, CreateTasksTool):
        raise ValueError(
            f"the tool name {tool.name!r} is taken in flows: end_turn, create_tasks, and what begins with succeed_ or fail_"
        )
