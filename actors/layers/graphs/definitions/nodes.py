"""What stands in the edges of a graph besides agents: functions, tools, joins, and nodes that run for each item of a list."""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, Never, overload

import pydantic
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.definitions.agents.base import BaseAgent, Placement, ShownByChanges, refuse_unnamed, wrongly_defined
from actors.definitions.schemas import OutputType, output_type
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ReadonlyContext
from actors.definitions.tools.function import FunctionTool
from actors.errors import DefinitionError, WorkflowConfigurationError, WorkflowDataError
from actors.errors.hints import explains_all_wrong_calls, explains_wrong_calls
from actors.errors.user_code import UserFunction
from actors.layers.agent_tool import AgentTool
from actors.layers.graphs.definitions.context import NodeContext
from actors.messages.content import Content
from actors.messages.json_types import JsonMapping, JsonObject
from actors.messages.shown import shown
from actors.rules.checks.user_message import read_json


class RetryConfig(ShownByChanges, BaseModel):
    """How often, and when, a node is tried again that has failed.

    Attributes:
        max_attempts: runs of the node in all; 0 and 1 try nothing again. Default 5.
        initial_delay: seconds before the second attempt; default 1.
        max_delay: the longest wait in seconds; default 60.
        backoff_factor: each wait is so many times the one before; default 2.
        jitter: the share of a wait by which chance makes it longer or shorter, 0 to 1; default 1.
        exceptions: only errors of these classes, or of classes below them, by name or as classes; None, the default: all.

    Raises:
        DefinitionError: a field is unknown or wrong; the message names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_attempts: int = Field(default=5, ge=0)
    initial_delay: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    max_delay: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    backoff_factor: float = Field(default=2.0, ge=0, allow_inf_nan=False)
    jitter: float = Field(default=1.0, ge=0, le=1)
    exceptions: Sequence[str | type[BaseException]] | None = None

    def __init__(self, *unnamed: Never, **fields: object) -> None:
        refuse_unnamed(type(self), unnamed, "max_attempts")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise DefinitionError(wrongly_defined(type(self), None, error)) from error

    @property
    def names(self) -> Sequence[str] | None:
        """The names of `exceptions`; None: all."""
        if self.exceptions is None:
            return None
        return [each if isinstance(each, str) else each.__name__ for each in self.exceptions]

    def delay_s(self, failed: int, chance: float) -> float:
        """Seconds before the next attempt.

        Args:
            failed: attempts that have failed, from 1.
            chance: from 0 to 1, evenly distributed.
        """
        delay = min(self.initial_delay * self.backoff_factor ** (failed - 1), self.max_delay)
        return max(0.0, delay * (1 + self.jitter * (2 * chance - 1)))


ParameterBinding = Literal["state", "node_input"]

INPUT_BINDING: Final = "node_input"
"""The binding with which a function gets all its parameters from the input."""


class FunctionNode:
    """A node that calls a function: sync, async, or a generator of either kind.

    The function takes `node_input`, what the node before has given; a NodeContext, as `ctx` or by its annotation; and every other
    parameter from the session's state, by its name. What it returns is the output of the node: plain data or a pydantic object.
    None is no output, a Content is shown and is no output. A generator yields outputs, at most one, and Events.

    Args:
        func: the function. It runs in the graph's actor, or in its own; one that is sync, and no generator, in a thread.
        name: of the node; by default the function's name.
        retry_config: tries it again when it fails; default None.
        timeout: seconds for one attempt; default None, for no limit.
        rerun_on_resume: it is called again when the user has answered its RequestInput, with `ctx.resume_inputs`; False, the
            default: the answer is its output.
        require_confirmation: the user is asked before it is called; without consent its output says that it was rejected.
        wait_for_output: a run that gives neither an output nor a route leads to no other node, and one
            below `run_node` runs again when the function that asked for it does; default False.
        parameter_binding: "state", the default, or "node_input": all parameters are taken from the input, a dictionary.
        placement: it runs in an actor of its own, as an agent does; default None: in that of the graph. It can run no agents.

    Raises:
        DefinitionError: it cannot be called so; the message says why.
    """

    placement: Placement | None = None
    output_class: type[BaseModel] | None = None

    @explains_wrong_calls
    def __init__(
        self,
        func: UserFunction,
        *,
        name: str | None = None,
        retry_config: RetryConfig | None = None,
        timeout: float | None = None,
        rerun_on_resume: bool | None = None,
        require_confirmation: bool = False,
        wait_for_output: bool = False,
        parameter_binding: ParameterBinding = "state",
        placement: Placement | None = None,
    ) -> None:
        if not callable(func) or isinstance(func, type):
            raise DefinitionError(f"FunctionNode needs a function, not {shown(func)}")
        self.func = func
        self.name = check_node_name(name if name is not None else str(getattr(func, "__name__", "")))
        check_attempts(f"node {self.name!r}", retry_config, timeout)
        self.retry_config = retry_config
        self.timeout = timeout
        if require_confirmation and rerun_on_resume is False:
            raise WorkflowConfigurationError(
                f"node {self.name!r}: require_confirmation calls it after an answer, so leave rerun_on_resume=False out"
            )
        self.rerun_on_resume = bool(rerun_on_resume)
        self.require_confirmation = require_confirmation
        self.wait_for_output = wait_for_output
        if parameter_binding not in ("state", INPUT_BINDING):
            raise DefinitionError(f"node {self.name!r}: parameter_binding is 'state' or 'node_input', not {parameter_binding!r}")
        if placement is not None and not isinstance(placement, Placement):
            raise DefinitionError(f"node {self.name!r}: placement is a Placement, not {shown(placement)}")
        self.placement = placement
        self.parameter_binding = parameter_binding
        self.form = _form(func)
        # The pydantic class that the function says that it returns, or yields; None: it says none.
        self.output_class = _returned_class(func)
        self.context_parameter, self.parameters = _parameters(self.name, func)
        # The pydantic class of the parameter `node_input`; None: it has another type, or none.
        given = self.parameters.get("node_input")
        self.input_class = model_class(given.annotation) if given is not None else None

    def checked_output(self, output: object) -> object:
        """The output, as the pydantic class that the function says that it returns. Raises ValidationError (pydantic)."""
        if self.output_class is None:
            return output
        return self.output_class.model_validate(output).model_dump(exclude_none=True)

    def __repr__(self) -> str:
        return f"FunctionNode({self.name})"


class JoinNode:
    """A node that runs when each node before it has ended; its output is theirs, by their names.

    Args:
        name: of the node.
        input_schema: a type that each of these outputs has to fit, see LlmAgent's output_schema; default None.

    Raises:
        DefinitionError: no node can have that name, or the schema is none.
    """

    @explains_wrong_calls
    def __init__(self, name: str, input_schema: Any = None) -> None:
        self.name = check_node_name(name)
        self.input_type = checked_type(f"join {name!r}", "input_schema", input_schema)

    def __repr__(self) -> str:
        return f"JoinNode({self.name})"


class TriedAgent:
    """An agent as a node that is tried again, or that may take only so long. An agent without these stands in edges as it is.

    Args:
        node: the agent.
        retry_config: tries it again when its run fails, with the same input; of a graph what has ended stays so. Default None.
        timeout: seconds for one attempt; default None, for no limit.

    Raises:
        DefinitionError: an option is wrong.
    """

    @explains_wrong_calls
    def __init__(self, node: BaseAgent, *, retry_config: RetryConfig | None = None, timeout: float | None = None) -> None:
        if not isinstance(node, BaseAgent):
            raise DefinitionError(f"TriedAgent needs an agent, not {shown(node)}")
        check_attempts(f"node {node.name!r}", retry_config, timeout)
        self.node = node
        self.name = node.name
        self.retry_config = retry_config
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"TriedAgent({self.name})"


def check_attempts(owner: str, retry_config: object, timeout: float | None) -> None:
    """Check how often something is tried, and how long. Raises DefinitionError."""
    if retry_config is not None and not isinstance(retry_config, RetryConfig):
        raise DefinitionError(f"{owner}: retry_config is a RetryConfig, not {shown(retry_config)}")
    if timeout is not None and not timeout > 0:
        raise DefinitionError(f"{owner}: timeout is a number of seconds above 0, not {shown(timeout)}")


@overload
def node(
    given: object,
    /,
    *,
    name: str | None = ...,
    retry_config: RetryConfig | None = ...,
    timeout: float | None = ...,
    rerun_on_resume: bool | None = ...,
    require_confirmation: bool = ...,
    parameter_binding: ParameterBinding = ...,
    placement: Placement | None = ...,
    parallel_worker: bool = ...,
    max_parallel_workers: int | None = ...,
    partial_results: bool = ...,
) -> Any: ...
@overload
def node(
    *,
    name: str | None = ...,
    retry_config: RetryConfig | None = ...,
    timeout: float | None = ...,
    rerun_on_resume: bool | None = ...,
    require_confirmation: bool = ...,
    parameter_binding: ParameterBinding = ...,
    placement: Placement | None = ...,
    parallel_worker: bool = ...,
    max_parallel_workers: int | None = ...,
    partial_results: bool = ...,
) -> Callable[[UserFunction], FunctionNode | ParallelWorker]: ...
@explains_wrong_calls
def node(
    given: Any = None,
    /,
    *,
    name: str | None = None,
    retry_config: RetryConfig | None = None,
    timeout: float | None = None,
    rerun_on_resume: bool | None = None,
    require_confirmation: bool = False,
    parameter_binding: ParameterBinding = "state",
    placement: Placement | None = None,
    parallel_worker: bool = False,
    max_parallel_workers: int | None = None,
    partial_results: bool = False,
) -> Any:
    """Make a node of a function, as `@node`, `@node(name=…)` or `node(function, retry_config=…)`: see FunctionNode.

    Args:
        given: a function; or an agent, with `retry_config`, `timeout` or `parallel_worker`: see TriedAgent.
        parallel_worker: the node runs once for each item of its input: see ParallelWorker. The other options are an item's.
        max_parallel_workers: so many items at a time; default None: all.
        partial_results: see ParallelWorker.

    Returns:
        A FunctionNode, a TriedAgent or a ParallelWorker; an agent without options as it is. Without `given` a function that
        makes one of these.

    Raises:
        DefinitionError: it can be none.
    """
    if (max_parallel_workers is not None or partial_results) and not parallel_worker:
        option = "partial_results" if partial_results else "max_parallel_workers"
        raise WorkflowConfigurationError(f"{option} is for nodes with parallel_worker=True")

    def made(of: Any) -> Any:
        inner = of
        if isinstance(of, BaseAgent):
            if name is not None or rerun_on_resume is not None or require_confirmation or placement is not None:
                raise DefinitionError(f"node() takes retry_config and timeout for an agent: {shown(of)} has its own ways")
            if retry_config is not None or timeout is not None:
                inner = TriedAgent(of, retry_config=retry_config, timeout=timeout)
        elif isinstance(of, FunctionNode | TriedAgent):
            if require_confirmation or any(v is not None for v in (name, retry_config, timeout, rerun_on_resume, placement)):
                raise DefinitionError(f"{shown(of)} is a node already, and has its own options")
        elif isinstance(of, Tool) and parallel_worker:
            if require_confirmation or any(v is not None for v in (name, retry_config, timeout, rerun_on_resume, placement)):
                raise DefinitionError(f"{shown(of)} has its own name and options: node() takes those of a parallel worker for it")
        elif isinstance(of, Tool | JoinNode):
            raise DefinitionError(f"node() makes functions nodes: {shown(of)} stands in the edges of a Graph as it is")
        else:
            inner = FunctionNode(
                of,
                name=name,
                retry_config=retry_config,
                timeout=timeout,
                rerun_on_resume=rerun_on_resume,
                require_confirmation=require_confirmation,
                parameter_binding=parameter_binding,
                placement=placement,
            )
        if not parallel_worker:
            return inner
        return ParallelWorker(inner, max_parallel_workers=max_parallel_workers, partial_results=partial_results)

    return made if given is None else made(given)


def checked_type(owner: str, field: str, given: Any) -> OutputType | None:
    """A schema, ready for use; None without one. Raises DefinitionError."""
    try:
        return output_type(given) if given is not None else None
    except ValueError as error:
        raise DefinitionError(f"{owner}: {field} {error}") from error


def check_node_name(name: object) -> str:
    """The name, if a node can have it. Raises WorkflowConfigurationError."""
    if not isinstance(name, str) or not name.isidentifier() or len(name) > 256:
        raise WorkflowConfigurationError(
            f"{shown(name)} is no name of a node: these are Python identifiers of at most 256 characters"
        )
    return name


def _form(function: UserFunction) -> Literal["async generator", "generator", "coroutine", "blocking"]:
    """The way in which a function gives what it gives."""
    called = function if inspect.isroutine(function) else type(function).__call__
    if inspect.isasyncgenfunction(called):
        return "async generator"
    if inspect.isgeneratorfunction(called):
        return "generator"
    return "coroutine" if inspect.iscoroutinefunction(called) else "blocking"


def _returned_class(function: UserFunction) -> type[BaseModel] | None:
    try:
        returned = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None
    if typing.get_origin(returned) in (Generator, AsyncGenerator, Iterator, AsyncIterator):
        returned = typing.get_args(returned)[0]
    return model_class(returned)


def model_class(given: object) -> type[BaseModel] | None:
    """The type itself, if it is a pydantic class; None for any other."""
    return given if isinstance(given, type) and issubclass(given, BaseModel) else None


def _parameters(name: str, function: UserFunction) -> tuple[str | None, dict[str, NodeParameter]]:
    """The parameter that takes the context, None without one; and all others."""
    called = function if inspect.isroutine(function) else type(function).__call__
    context, parameters = None, {}
    for parameter in inspect.signature(function).parameters.values():
        # Where a function has travelled as code, the names in its annotations may have stayed behind.
        if parameter.name == "ctx" or parameter.annotation in _CONTEXTS:
            context = parameter.name
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise DefinitionError(f"node {name!r}: parameter {parameter.name!r} must be an ordinary named one")
        else:
            annotation = _resolved(name, called, parameter)
            parameters[parameter.name] = NodeParameter(annotation, parameter.default is parameter.empty)
    return context, parameters


_CONTEXTS = (NodeContext, CallbackContext, ReadonlyContext, "NodeContext", "CallbackContext", "ReadonlyContext")


def _resolved(name: str, function: UserFunction, parameter: inspect.Parameter) -> Any:
    """The type of a parameter, that pydantic can make values fit. Raises DefinitionError."""
    if parameter.annotation is parameter.empty:
        return Any
    try:
        holder = type("_Holder", (), {"__annotations__": {parameter.name: parameter.annotation}})
        names = getattr(function, "__globals__", {})
        annotation = typing.get_type_hints(holder, names, include_extras=True)[parameter.name]
        pydantic.TypeAdapter(annotation)
    except (NameError, TypeError, pydantic.errors.PydanticUserError) as error:
        raise DefinitionError(f"node {name!r}: nothing can be checked to be a {parameter.annotation!r}: {error}") from error
    return annotation


class NodeParameter:
    """A parameter of a node's function that is filled from the input or from the state.

    Args:
        annotation: its type; Any without one.
        is_required: it has no default.
    """

    def __init__(self, annotation: Any, is_required: bool) -> None:
        self.annotation = annotation
        self.is_required = is_required

    def __reduce__(self) -> tuple[type[NodeParameter], tuple[Any, bool]]:
        return NodeParameter, (self.annotation, self.is_required)

    def fitted(self, value: object) -> object:
        """The value as the parameter's type has it; the words of a Content are read as JSON if they are that.

        Raises:
            pydantic.ValidationError: it does not fit.
        """
        if self.annotation is Any or self.annotation is Content:
            return value
        if not isinstance(value, Content):
            return self._adapter.validate_python(value)
        if self.annotation is str:
            return value.text
        try:
            return self._adapter.validate_json(value.text)
        except pydantic.ValidationError:
            return self._adapter.validate_python(value.text)

    @cached_property
    def _adapter(self) -> pydantic.TypeAdapter[Any]:
        # To make one costs more than all else that a small function's node does.
        return pydantic.TypeAdapter(self.annotation)


@explains_all_wrong_calls
@dataclass(frozen=True)
class ItemError:
    """Why the run for one item has failed.

    Attributes:
        index: of the item in the list, from 0.
        error_code: the name of the error's class.
        error_message: its text.
    """

    index: int
    error_code: str
    error_message: str


@explains_all_wrong_calls
@dataclass(frozen=True)
class PartialResults:
    """The output of a parallel worker with `partial_results`.

    Attributes:
        results: the outputs in the order of the items; None for those that failed.
        errors: of the items that failed, in their order.
    """

    results: list[Any]
    errors: list[ItemError] = field(default_factory=list)


class ParallelWorker:
    """A node that runs another one for each item of its input, which is a list; its output is the list of theirs.

    Args:
        node: an agent, a TriedAgent, or a FunctionNode. With a `retry_config` of its own it is tried again item by item.
        max_parallel_workers: so many items at a time; default None: all.
        partial_results: an item that fails stops neither the others nor the graph, and the output is a PartialResults; False,
            the default: the first item that fails does.

    Raises:
        WorkflowConfigurationError: `max_parallel_workers` is less than 1.
    """

    @explains_wrong_calls
    def __init__(self, node: Any, *, max_parallel_workers: int | None = None, partial_results: bool = False) -> None:
        if max_parallel_workers is not None and max_parallel_workers < 1:
            raise WorkflowConfigurationError(
                f"node {node.name!r}: max_parallel_workers is at least 1, not {max_parallel_workers}"
            )
        self.node = node
        self.name: str = node.name
        self.max_parallel_workers = max_parallel_workers
        self.partial_results = partial_results

    def of(self, node: Any) -> ParallelWorker:
        """The same for another node."""
        return ParallelWorker(node, max_parallel_workers=self.max_parallel_workers, partial_results=self.partial_results)

    def __repr__(self) -> str:
        return f"ParallelWorker({self.name})"


class ToolNode(FunctionNode):
    """A node that runs a tool: a tool that stands in the edges of a graph becomes one. What the tool returns is its output.

    A dictionary, or a text that is one as JSON, has the arguments. Any other input is the argument of a tool that needs just one.
    What is missing then comes from the state, by name.

    Args:
        tool: the tool. With `require_confirmation` the user is asked first.

    Raises:
        DefinitionError: the tool has no declaration, is long-running, asks an agent, or has a name that no node can have.
    """

    @explains_wrong_calls
    def __init__(self, tool: Tool) -> None:
        if isinstance(tool, AgentTool):
            raise DefinitionError(f"{tool!r} is no node of a graph: put the agent itself into the edges")
        declared = tool.declaration()
        if declared is None or tool.is_long_running:
            raise DefinitionError(
                f"{tool!r} is no node of a graph: it has to be a tool that models call, and that answers at once"
            )
        self.tool = tool
        self.takes: JsonObject = declared.parameters or {}
        super().__init__(self._call, name=tool.name, require_confirmation=tool.require_confirmation)

    async def _call(self, ctx: NodeContext, node_input: Any) -> Any:
        arguments = self.arguments(node_input, ctx.state)
        if isinstance(self.tool, FunctionTool):
            try:
                self.tool.checked(arguments)
            except ValueError as error:
                # No model is there to correct them: it is a wrong call, as in Python and in google-adk.
                raise TypeError(str(error)) from error
        return await self.tool.run(arguments, ctx.tool_context())

    def arguments(self, given: Any, state: JsonMapping) -> JsonObject:
        """The arguments that the tool is called with. Raises WorkflowDataError."""
        value = _read(given.text if isinstance(given, Content) else given)
        required = self.takes.get("required", [])
        if isinstance(value, Mapping):
            found = dict(value)
        elif value is None:
            found = {}
        else:
            names = required if required else list(self.takes.get("properties", {}))
            if len(names) != 1:
                raise WorkflowDataError(
                    self.name, f"the tool takes {', '.join(names) or 'nothing'}: give it a dictionary of these"
                )
            found = {names[0]: value}
        for name in required:
            if name not in found and name in state:
                found[name] = state[name]
        return found

    def __repr__(self) -> str:
        return f"ToolNode({self.name})"


def _read(value: Any) -> Any:
    """An input; a text that has a dictionary as JSON as that."""
    parsed = read_json(value) if isinstance(value, str) else value
    return parsed if isinstance(parsed, dict) else value
