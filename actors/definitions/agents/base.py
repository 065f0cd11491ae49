"""What every agent definition has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.errors import DefinitionError

Callback = Callable[..., Any] | list[Callable[..., Any]] | None
"""One function or a list of them, sync or async. A list runs until the first result that is not None."""


class Placement(BaseModel):
    """Where an agent's actor runs: in a process of the pool, or in one of its own, in Ray's terms, if it asks for anything.

    Attributes:
        num_cpus, num_gpus, memory: what its process needs; memory in bytes.
        resources: custom resources by name.
        label_selector: labels that its node must have.
        replicas: by how many actors it is served, each in a process with these needs. A session always has the same one.
        colocate: "parent": it lives in the process of its parent, whatever that needs.

    Raises:
        DefinitionError: a field is unknown or wrong, or two do not go together; the message names them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_cpus: float = Field(default=0, ge=0)
    num_gpus: float = Field(default=0, ge=0)
    memory: int | None = Field(default=None, gt=0)
    resources: dict[str, float] = {}
    label_selector: dict[str, str] = {}
    replicas: int = Field(default=1, ge=1)
    colocate: Literal["parent"] | None = None

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise DefinitionError(_wrong("a Placement", error)) from error

    @pydantic.model_validator(mode="after")
    def _goes_together(self) -> Placement:
        if self.colocate is not None:
            fields = type(self).model_fields.items()
            also = " and ".join(name for name, field in fields if name != "colocate" and getattr(self, name) != field.default)
            if also:
                raise ValueError(
                    f"colocate={self.colocate!r} does not go with {also}: an agent that lives in its parent's process has what "
                    f"that has. Give {also} to the parent, or leave colocate out"
                )
        return self

    @property
    def asks(self) -> bool:
        """True when its process needs something that not every process has."""
        return bool(self.num_cpus or self.num_gpus or self.memory or self.resources or self.label_selector)


class Agent(BaseModel):
    """A node of the tree. Use one of its kinds: LlmAgent, CustomAgent, SequentialAgent, ParallelAgent, LoopAgent or FlowAgent.

    A definition is frozen and holds no state of a run; the same object may serve any number of sessions.

    Attributes:
        name: unique in the tree, a Python identifier and not `user`.
        description: what it is good for, for the agents that may transfer to it.
        sub_agents: its children, in order.
        before_agent_callback: called with a CallbackContext before its run; content returned is the run.
        after_agent_callback: called with a CallbackContext when its run is over; content returned is one more event.
        placement: where its actor runs.

    Raises:
        DefinitionError: a field is missing, unknown or wrong; the message names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    kind: ClassVar[Literal["custom", "flow", "llm", "sequential", "parallel", "loop"]]

    name: str
    description: str = ""
    sub_agents: Sequence[Agent] = ()
    before_agent_callback: Callback = None
    after_agent_callback: Callback = None
    placement: Placement = Placement()

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise DefinitionError(wrongly_defined(type(self).__name__, data.get("name"), error)) from error

    @pydantic.model_validator(mode="after")
    def _is_a_kind(self) -> Agent:
        if not hasattr(type(self), "kind"):
            raise ValueError("use one of the kinds of agents: LlmAgent, CustomAgent, SequentialAgent, ParallelAgent or LoopAgent")
        return self

    def alone(self) -> Agent:
        """The same definition without its children: what travels to the agent's actor."""
        return self.model_copy(update={"sub_agents": ()})


def wrongly_defined(kind: str, name: object, error: ValidationError) -> str:
    """The sentence that tells what is wrong with a definition."""
    return _wrong(f"{kind} {name!r}", error)


def _wrong(what: str, error: ValidationError) -> str:
    wrong = "; ".join(f"{'.'.join(map(str, detail['loc'])) or 'definition'}: {detail['msg']}" for detail in error.errors())
    return f"{what} is not defined rightly: {wrong}"


def callbacks(callback: Callback) -> Sequence[Callable[..., Any]]:
    """The functions of a callback field, in order."""
    if callback is None:
        return ()
    return callback if isinstance(callback, list) else (callback,)
