"""A task: something to achieve, with a typed result, and what its agents are shown beside the objective."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, Literal, Never

import pydantic
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from actors.definitions.agents.agent_tools import AskingTool
from actors.definitions.agents.base import BaseAgent, ShownByChanges, wrongly_defined
from actors.definitions.agents.llm import as_tool
from actors.definitions.tools.base import Tool
from actors.errors import DefinitionError, NotEncodableError
from actors.errors.hints import problems
from actors.layers.flows.definitions.task_tools import MAX_CALLS_OF_A_TASK, refuse_taken_name
from actors.layers.flows.rules.prompt import ASK_USER, NAME_LENGTH
from actors.messages.codec import flaw, plain
from actors.messages.json_types import JsonMapping, JsonValue


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


class ResultType:
    """A task's `result_type`, checked and ready for use.

    Args:
        task: the name of the task, for errors.
        given: a plain type, a pydantic model, a dataclass or anything else that pydantic can validate; a list or tuple of
            labels, of which the model chooses one by its index; or None, for a task without a result.

    Attributes:
        labels: the labels; None when the result is no label.

    Raises:
        DefinitionError: `given` is none of these.
    """

    def __init__(self, task: str, given: Any) -> None:
        self._given = given
        self.labels: Sequence[object] | None = tuple(given) if isinstance(given, list | tuple) else None
        if self.labels is not None and not self.labels:
            raise DefinitionError(f"task {task!r}: result_type is an empty list: give at least one label")
        try:
            if self.labels is not None:
                self._stored_labels = [plain(label) for label in self.labels]
            elif given is not None:
                _ = self.schema
        except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError, NotEncodableError) as error:
            raise DefinitionError(
                f"task {task!r}: result_type is a type, a pydantic model, a dataclass, a list of labels or None; not {given!r}"
            ) from error

    @property
    def is_none(self) -> bool:
        """True for a task without a result."""
        return self._given is None

    @cached_property
    def _adapter(self) -> pydantic.TypeAdapter[Any]:
        # Made with the definition and pickled as it is: in another process the annotations of a dataclass of `__main__`, texts
        # under `from __future__ import annotations`, could not be resolved any more.
        return pydantic.TypeAdapter(self._given)

    @cached_property
    def schema(self) -> JsonMapping:
        """The JSON schema of the result in the form in which a model gives it."""
        if self.labels is not None:
            listed = ", ".join(f"{index}: {label}" for index, label in enumerate(self._stored_labels))
            return {"type": "integer", "minimum": 0, "maximum": len(self.labels) - 1, "description": f"One of {listed}"}
        return self._adapter.json_schema()

    def description(self) -> str:
        """The result that is wanted, in words for an agent's instruction; "" for a task without a result."""
        if self.is_none:
            return ""
        if self.labels is not None:
            return "one of these, by its number: " + ", ".join(f"{i}: {label}" for i, label in enumerate(self._stored_labels))
        if self._given is str:
            return "a text"
        schema = self.schema
        return f"{schema.get('title') or schema.get('type') or 'a value'}, as the function wants it"

    def checked(self, value: JsonValue) -> JsonValue:
        """The result that a model gave, in the form in which it is stored.

        Raises:
            ValueError: it does not fit; the message helps the model to correct it.
        """
        if self.is_none:
            return None
        if self.labels is not None:
            return self._stored_labels[self._index(value, len(self.labels))]
        try:
            return plain(self._adapter.dump_python(self._adapter.validate_python(value), mode="json"))
        except pydantic.ValidationError as error:
            raise ValueError(f"the result does not fit: {problems(error)}") from error

    def _index(self, value: JsonValue, count: int) -> int:
        index = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
            raise ValueError(f"the result must be the number of a label, 0 to {count - 1}, not {value!r}: {self.description()}")
        return index

    def typed(self, stored: JsonValue) -> Any:
        """The result as an object of its type, made from the stored form.

        Raises:
            pydantic.ValidationError: what is stored does not fit the type, for instance because the type has changed since.
        """
        if self.is_none or stored is None:
            return None
        if self.labels is not None:
            indexes = [index for index, label in enumerate(self._stored_labels) if label == stored]
            return self.labels[indexes[0]] if indexes else stored
        return self._adapter.validate_python(stored)


@dataclass(frozen=True)
class ResultOf:
    """Stands in a task's context for the result of another task, by its name."""

    task: str


TaskContext = Mapping[str, JsonValue | ResultOf]
"""The context of a task in the form in which it is sent to actors."""


def checked_value(key: object, value: object) -> JsonValue:
    """A value of a task's context as plain data. Raises ValueError when a model cannot be shown it."""
    if not isinstance(key, str) or not key:
        raise ValueError(f"its keys are texts that are not empty, not {key!r}")
    for inner in _parts(value):
        if isinstance(inner, ShownByChanges | Tool):
            raise ValueError(
                f"{key!r} has a {type(inner).__name__} in it: only values are shown, and tasks that are values themselves"
            )
        if isinstance(inner, set | frozenset):
            # Another program has the items in another order, and a flow that it gives again would be another flow.
            raise ValueError(f"{key!r} has a set in it: give a list, which has an order")
    try:
        found = plain(value)
        if (wrong := flaw([found], is_finite=True)) is not None:
            raise NotEncodableError(type(value).__name__, wrong)
    except NotEncodableError as error:
        raise ValueError(f"{key!r} is no JSON value: {error}") from error
    if any(isinstance(inner, bytes) for inner in _parts(found)):
        raise ValueError(f"{key!r} has bytes in it: give a text, or save them as an artifact")
    return found


def _parts(value: object) -> Iterator[object]:
    """A value, and everything in it."""
    waiting, seen = [value], set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        if isinstance(found, Mapping):
            waiting += found.values()
        elif isinstance(found, list | tuple):
            waiting += found
        elif isinstance(found, BaseModel):
            waiting += vars(found).values()
        elif is_dataclass(found):
            waiting += (getattr(found, field.name, None) for field in fields(found))
