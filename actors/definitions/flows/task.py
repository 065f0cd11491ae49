"""A task: something to be achieved, with a result of a type (seed 003)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from actors.definitions.agents.agent_tool import AgentTool
from actors.definitions.agents.base import Agent, wrongly_defined
from actors.definitions.agents.llm import as_tool
from actors.definitions.flows.results import ResultType
from actors.definitions.tools.base import Tool
from actors.definitions.tools.tasks import refuse_taken_name
from actors.errors import DefinitionError
from actors.rules.flow.tool_names import NAME_LENGTH


class Task(BaseModel):
    """Something for agents to achieve. A definition: it is frozen, and holds nothing of any run.

    Args:
        objective: what is to be achieved; a template like an agent's instruction, so `{key}` is filled in from the state.

    Attributes:
        name: unique in its flow, an identifier; by default `task_<n>`, by its place in the flow.
        result_type: what succeeding gives: a type, a pydantic model, a dataclass, a list of labels of which one is chosen, or
            None for nothing.
        agents: who may work on it, as agents or names; by default all agents of the flow.
        depends_on: tasks that have to be complete before it can begin, as tasks or names.
        subtasks: its parts. They come before it: it is ready when they are complete.
        parent: the other way to say that it is a part of another task.
        tools: for whoever works on it, beside the agent's own.
        max_llm_calls: after so many model calls it fails; None is any number.
        on_failed_dependency: "skip" it when something that it needs failed or was skipped, or "run" it all the same.

    Raises:
        DefinitionError: a field is missing, unknown or wrong; the message names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    objective: str
    name: str = ""
    result_type: Any = str
    agents: Sequence[Agent | str] = ()
    depends_on: Sequence[Task | str] = ()
    subtasks: Sequence[Task] = ()
    parent: Task | str | None = None
    tools: Sequence[Any] = ()
    max_llm_calls: int | None = Field(default=None, gt=0)
    on_failed_dependency: Literal["skip", "run"] = "skip"

    def __init__(self, objective: str = "", /, **data: Any) -> None:
        if objective:
            data["objective"] = objective
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise DefinitionError(wrongly_defined("Task", data.get("name") or data.get("objective"), error)) from error
        ResultType(self.name or self.objective, self.result_type)

    @field_validator("name")
    @classmethod
    def _is_identifier(cls, name: str) -> str:
        if name and not (name.isidentifier() and name.isascii()):
            raise ValueError(f"{name!r} is no identifier: use letters, digits and underscores, and no digit first")
        if len(name) > NAME_LENGTH:
            raise ValueError(f"{name!r} has {len(name)} characters: use at most {NAME_LENGTH}")
        return name

    @field_validator("tools")
    @classmethod
    def _as_tools(cls, given: Sequence[Any]) -> tuple[Tool, ...]:
        tools = tuple(as_tool(tool) for tool in given)
        for tool in tools:
            if isinstance(tool, AgentTool):
                raise ValueError(f"{tool.name!r} is an AgentTool: give it to the agents, it has to be deployed with them")
            refuse_taken_name(tool)
        return tools
