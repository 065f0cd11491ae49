"""A task: something to achieve, with a typed result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Never

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from actors.definitions.agents.asking_tool import AskingTool
from actors.definitions.agents.base import BaseAgent, wrongly_defined
from actors.definitions.agents.llm import as_tool
from actors.definitions.agents.shown import ShownByChanges
from actors.definitions.tools.base import Tool
from actors.errors import DefinitionError
from actors.layers.flows.definitions.context import checked_value
from actors.layers.flows.definitions.results import ResultType
from actors.layers.flows.definitions.task_tools import MAX_CALLS_OF_A_TASK, refuse_taken_name
from actors.layers.flows.rules.tool_names import ASK_USER, NAME_LENGTH


class Task(ShownByChanges, BaseModel):
    """Something for agents to achieve. A definition is frozen and holds no state of a run.

    Args:
        objective: what to achieve; a template like an agent's instruction, in which `{key}` stands for a value of the state.

    Attributes:
        name: unique in its flow, an identifier of at most 48 ASCII characters; by default `task_<n>`, by its position in the
            flow.
        result_type: the type of the result: a plain type, a pydantic model, a dataclass, a list of labels of which one is
            chosen, or None for no result; default `str`.
        agents: the agents that may work on the task, as objects or names; by default all agents of the flow.
        depends_on: tasks that have to be complete before this one can begin, as objects or names; default none.
        subtasks: the parts of the task, which have to be complete before it can begin; default none.
        parent: the task that this one is a part of, as object or name: the other way to define a subtask. Default None.
        context: values that its agents are shown with the objective, by name: JSON values, pydantic models and dataclasses; or
            another Task, which stands for its result and is a dependency. They are no templates. Default none.
        instructions: how to go about it, shown to the agents that work on it and only then; a template like the objective.
            Default "".
        interactive: its agents get the tool `ask_user(question)`, which pauses the turn until the user has answered. Default
            False.
        completion_agents: those of its agents that may complete it or give it up; the others work on it and hand over. By
            default all.
        tools: tools for the agent that works on the task, beside its own; default none.
        max_llm_calls: the number of model calls after which the task fails; calls before its agent finished another task do not
            count. Default 50; None is no limit.
        on_failed_dependency: "skip", the default, skips the task when one that it needs failed or was skipped; "run" runs it
            all the same.

    Raises:
        DefinitionError: a field is missing, unknown or wrong; the message names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    objective: str
    name: str = ""
    result_type: Any = str
    agents: Sequence[BaseAgent | str] = ()
    depends_on: Sequence[Task | str] = ()
    subtasks: Sequence[Task] = ()
    parent: Task | str | None = None
    context: Mapping[str, Any] = {}
    instructions: str = ""
    interactive: bool = False
    completion_agents: Sequence[BaseAgent | str] = ()
    tools: Sequence[Any] = ()
    max_llm_calls: int | None = Field(default=MAX_CALLS_OF_A_TASK, gt=0)
    on_failed_dependency: Literal["skip", "run"] = "skip"

    def __init__(self, objective: str = "", /, *unnamed: Never, **fields: object) -> None:
        if unnamed:
            raise DefinitionError("Task takes only its objective by place: write Task(objective, name=…)")
        if objective:
            fields["objective"] = objective
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise DefinitionError(wrongly_defined(type(self), fields.get("name") or fields.get("objective"), error)) from error
        ResultType(self.name or self.objective, self.result_type)

    @field_validator("name")
    @classmethod
    def _is_identifier(cls, name: str) -> str:
        if name and not (name.isidentifier() and name.isascii()):
            raise ValueError(f"{name!r} is no identifier: use letters, digits and underscores, and no digit first")
        if len(name) > NAME_LENGTH:
            raise ValueError(f"{name!r} has {len(name)} characters: use at most {NAME_LENGTH}")
        return name

    @field_validator("context")
    @classmethod
    def _is_plain(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        return {key: value if isinstance(value, Task) else checked_value(key, value) for key, value in given.items()}

    @model_validator(mode="after")
    def _asks_in_one_way(self) -> Task:
        if self.interactive and any(tool.name == ASK_USER for tool in self.tools):
            raise ValueError(
                f"it is interactive, so its agents get a tool {ASK_USER!r}: rename the one in tools, or leave one out"
            )
        return self

    @field_validator("tools")
    @classmethod
    def _as_tools(cls, given: Sequence[object]) -> tuple[Tool, ...]:
        tools = tuple(as_tool(tool) for tool in given)
        for tool in tools:
            if isinstance(tool, AskingTool):
                raise ValueError(f"{tool.name!r} asks an agent: give it to the agents, it has to be deployed with them")
            refuse_taken_name(tool)
        return tools
