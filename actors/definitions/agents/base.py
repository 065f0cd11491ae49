"""What every agent definition has, how its fields are given and shown, and what is said where a program expects otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, Self

import pydantic
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from actors.definitions.agents.callbacks import signature_of
from actors.definitions.tools.base import Tool
from actors.errors import AgentTreeError, DefinitionError
from actors.errors.hints import problems
from actors.errors.user_code import UserFunction
from actors.messages.config import add_defaults
from actors.messages.event import USER
from actors.messages.shown import Text, shown
from actors.rules.checks.ids import MAX_ID


class ShownByChanges:
    """Mixin of pydantic models that are shown by what differs from the defaults; functions and other definitions by name."""

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        fields: dict[str, FieldInfo] = getattr(type(self), "model_fields", {})
        for name, field in fields.items():
            value = getattr(self, name, None)
            if value is not field.default and value != field.get_default(call_default_factory=True):
                yield name, Text(shown(_by_name(value)))

    def __str__(self) -> str:
        return repr(self)


def _by_name(value: object) -> object:
    """A value with names in place of what would fill a page."""
    match value:
        case list() | tuple():
            return [_by_name(each) for each in value]
        case FunctionType() | MethodType() | BuiltinFunctionType() | type():
            return Text(value.__name__)
        case Tool():
            return Text(value.name)
        case ShownByChanges() if name := getattr(value, "name", ""):
            return Text(f"{type(value).__name__}({name!r})")
        case _:
            return value


_RUN = "agents are run by a Runtime: rt.run(…); a CustomAgent runs its children by await context.run_agent(name)"
_PLACE = "a definition does not know its place in a tree: AgentTree(root).topology has it, and rt.tree() of a deployed tree"
_FIND = "AgentTree(root).find(name) finds a definition below a root, and rt.find_agents(…) agents of a deployed tree"

NOT_OF_AGENTS: Mapping[str, str] = {
    "parent_agent": _PLACE,
    "root_agent": _PLACE,
    "find_agent": _FIND,
    "find_sub_agent": _FIND,
    "clone": 'agent.model_copy(update={"name": …}) makes another agent with other fields',
    "run_async": _RUN,
    "run_live": _RUN,
}
"""What ADK's agents have and these have not, and what to do instead."""


def refuse_unnamed(kind: type, unnamed: Sequence[object], first: str) -> None:
    """Check that no field was given by its place alone. Raises DefinitionError, with the field that was probably meant."""
    if unnamed:
        raise DefinitionError(
            f"{kind.__name__} takes its fields by name: write {kind.__name__}({first}={shown(unnamed[0])}, …) "
            f"instead of {kind.__name__}({shown(unnamed[0])}, …)"
        )


def refuse_change(agent: str, field: str) -> Never:
    """Say that a field of an agent cannot be set. Raises DefinitionError."""
    raise DefinitionError(
        f"agent {agent!r} is fixed when it is defined, for its actor gets a copy of it: {field} cannot be set. "
        f"agent.model_copy(update={{{field!r}: …}}) makes another agent"
    )


def check_agent_name(name: str) -> None:
    """Check the name of an agent. Raises AgentTreeError."""
    if name == USER:
        raise AgentTreeError(f"an agent is called {name!r}, which is the author of the user's messages")
    if not name.isidentifier():
        raise AgentTreeError(f"{name!r} is no identifier: use letters, digits and underscores, and no digit first")
    if len(name) > MAX_ID:
        raise AgentTreeError(f"the name {name[:20]!r}… has {len(name)} characters: use {MAX_ID} at most")


Callback = UserFunction | list[UserFunction] | None
"""One function or a list of them, sync or async. A list is called in order until a function returns something but None."""


class Placement(ShownByChanges, BaseModel):
    """Where an agent's actor runs. By default it shares a process of the pool; with any need it gets a process of its own.

    Attributes:
        num_cpus: CPUs that Ray reserves for the process; default 0.
        num_gpus: GPUs that Ray reserves for the process; default 0.
        memory: bytes of memory that Ray reserves for the process, and at which it ends itself; default None, for neither.
        resources: custom Ray resources, amount by name.
        label_selector: labels that the node must have, in Ray's syntax: `value`, `!value`, `in(a, b)` or `!in(a, b)` by name.
        replicas: number of actors that serve the agent, each in a process with these needs; default 1. A session always goes
            to the same one.
        max_replicas: there may be so many when more runs of the agent are under way than its replicas are for; default None, for
            as many as `replicas`. Each further one has a process of its own, and ends when it is idle. A session may go from
            one to another between two runs.
        runs_per_replica: how many runs one replica is for, where there may be more of them; default 100.
        colocate: "parent" puts the agent into its parent's process; no other field goes with it. Default None.

    Raises:
        DefinitionError: a field is unknown or wrong, or two fields exclude each other; the message names them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_cpus: float = Field(default=0, ge=0)
    num_gpus: float = Field(default=0, ge=0)
    memory: int | None = Field(default=None, gt=0)
    resources: dict[str, float] = {}
    label_selector: dict[str, str] = {}
    replicas: int = Field(default=1, ge=1)
    max_replicas: int | None = Field(default=None, ge=1)
    runs_per_replica: int = Field(default=100, ge=1)
    colocate: Literal["parent"] | None = None

    def __init__(self, *unnamed: Never, **fields: object) -> None:
        refuse_unnamed(type(self), unnamed, "num_cpus")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise DefinitionError(_wrong("a Placement", error, type(self))) from error

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """Take what was pickled, maybe by an older release: fields that it did not have are as by default."""
        super().__setstate__(state)
        add_defaults(self)

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
        if self.max_replicas is not None and self.max_replicas < self.replicas:
            raise ValueError(
                f"max_replicas={self.max_replicas} is less than replicas={self.replicas}: give the same number or a larger one"
            )
        return self

    @property
    def most_replicas(self) -> int:
        """The largest number of replicas."""
        return self.max_replicas or self.replicas

    @property
    def asks(self) -> bool:
        """True when the process needs resources or labels, so that not every process of the pool will do."""
        return bool(self.num_cpus or self.num_gpus or self.memory or self.resources or self.label_selector)

    @property
    def is_default(self) -> bool:
        """True when no field says anything else than the default: the agent may live in any process of the pool."""
        # Ten times as fast as pydantic compares, of which a tree of ten thousand agents would take 40 ms.
        return self.__dict__ == _DEFAULT.__dict__


_DEFAULT = Placement()


class BaseAgent(ShownByChanges, BaseModel):
    """A node of the tree. Use one of its kinds: LlmAgent, CustomAgent, SequentialAgent, ParallelAgent, LoopAgent,
    Graph or FlowAgent.

    A definition is frozen and holds no state of a run: one object may serve any number of sessions.

    Attributes:
        name: unique in the tree; a Python identifier of at most 256 characters, and not `user`.
        description: what the agent is good for; models read it when they choose an agent to transfer to.
        sub_agents: its children, in order; default none.
        before_agent_callback: called with a CallbackContext before each run. If it returns a Content or a text, that is
            the agent's answer, and the run is skipped.
        after_agent_callback: called with a CallbackContext after each run. If it returns a Content or a text, that becomes one
            more event.
        placement: where the agent's actor runs; by default in a process of the pool.
        kind: of its class, what runs it.
        callback_points: of its class, the fields that hold functions of the user which the agent's run calls.

    Raises:
        AgentTreeError: no agent can have that name.
        DefinitionError: a field is missing, unknown or wrong, or a callback cannot be called; the message names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    kind: ClassVar[str]
    callback_points: ClassVar[Sequence[str]] = ("before_agent_callback", "after_agent_callback")

    name: str
    description: str = ""
    sub_agents: Sequence[BaseAgent] = ()
    before_agent_callback: Callback = None
    after_agent_callback: Callback = None
    placement: Placement = Placement()

    def __init__(self, *unnamed: Never, **fields: object) -> None:
        refuse_unnamed(type(self), unnamed, "name")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise DefinitionError(wrongly_defined(type(self), fields.get("name"), error)) from error
        # The controller of flows has a name that no agent of a user can have.
        if "name" in fields or self.kind != "flow":
            check_agent_name(self.name)

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """Take what was pickled, maybe by an older release: fields that it did not have are as by default."""
        super().__setstate__(state)
        add_defaults(self)

    @pydantic.field_validator("sub_agents", mode="before")
    @classmethod
    def _are_agents(cls, given: object) -> object:
        if isinstance(given, BaseAgent):
            raise ValueError(f"it is a list: write sub_agents=[{given.name}] instead of sub_agents={given.name}")
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ValueError(f"it is a list of agents, not {shown(given)}")
        for each in given:
            if (wrong := no_agent(each)) is not None:
                raise ValueError(wrong)
        return given

    @pydantic.model_validator(mode="after")
    def _is_a_kind(self) -> BaseAgent:
        if not hasattr(type(self), "kind"):
            raise ValueError("use one of the kinds of agents: LlmAgent, CustomAgent, SequentialAgent, ParallelAgent or LoopAgent")
        return self

    @pydantic.model_validator(mode="after")
    def _has_callbacks_that_can_be_called(self) -> BaseAgent:
        for point in self.callback_points:
            for function in callbacks(getattr(self, point)):
                # An instruction may be a text.
                if callable(function):
                    signature_of(function, point)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            refuse_change(self.name, name)
        super().__setattr__(name, value)

    if not TYPE_CHECKING:
        # Type checkers are to find unknown attributes.
        def __getattr__(self, name: str) -> object:
            if name in NOT_OF_AGENTS:
                raise AttributeError(f"{type(self).__name__} has no {name}: {NOT_OF_AGENTS[name]}")
            return super().__getattr__(name)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Another agent like this one, with other values for some fields, which are checked as in a new definition.

        Args:
            update: the new values by field.
            deep: copy the values of all other fields as well; default False.

        Raises:
            DefinitionError: a field is unknown or wrong; the message names it.
        """
        copied = super().model_copy(deep=deep)
        if not update:
            return copied
        return type(self)(**{**{name: getattr(copied, name) for name in self.model_fields_set}, **update})

    @property
    def delegates(self) -> Sequence[BaseAgent]:
        """The agents that work for its calls; an LLM agent's only."""
        return ()

    @property
    def children(self) -> Sequence[BaseAgent]:
        """The agents right below it: its sub_agents, and graphs to which it delegates."""
        delegates = self.delegates
        return (*self.sub_agents, *(each for each in delegates if each not in self.sub_agents)) if delegates else self.sub_agents

    @property
    def absorbs_escalation(self) -> bool:
        """An escalation below it ends this loop, and no other."""
        return False

    def node_fields(self) -> Mapping[str, Any]:
        """Fields of the agent's node in the topology that only its kind has."""
        return {}

    def check_among(self, agents: Mapping[str, BaseAgent]) -> None:
        """Check that it fits into its tree.

        Args:
            agents: those of the tree, and those beside it, by name.

        Raises:
            AgentTreeError: it does not; the message names it.
        """

    def placed_below(self, above: Iterable[BaseAgent]) -> BaseAgent:
        """The definition with what it inherits.

        Args:
            above: the agents above it, the nearest first.
        """
        return self

    def alone(self) -> BaseAgent:
        """The same definition without its children, as it is sent to the agent's actor."""
        return self.unchecked_copy(sub_agents=())

    def unchecked_copy(self, **fields: object) -> Self:
        """The same definition with other values for some fields, which are not checked: for copies that are sent to actors."""
        return BaseModel.model_copy(self, update=fields)


def wrongly_defined(kind: type[BaseModel], name: object, error: ValidationError) -> str:
    """The sentence that says what is wrong with a definition of that kind and name."""
    return _wrong(f"{kind.__name__} {name!r}" if name is not None else kind.__name__, error, kind)


def _wrong(what: str, error: ValidationError, kind: type[BaseModel]) -> str:
    return f"{what} is not defined rightly: {problems(error, whole='definition', fields=kind.model_fields)}"


def no_agent(given: object) -> str | None:
    """The reason why something is no agent; None for an agent."""
    if isinstance(given, BaseAgent):
        return None
    if isinstance(given, type) and issubclass(given, BaseAgent):
        return f"it is the class {given.__name__}, not an agent: write {given.__name__}(name=…)"
    return f"{shown(given)} is no agent, but a {type(given).__name__}"


def callbacks(callback: Callback) -> Sequence[UserFunction]:
    """The functions of a callback field, in order."""
    if callback is None:
        return ()
    return callback if isinstance(callback, list) else (callback,)
