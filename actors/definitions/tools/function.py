"""A Python function as a tool: its schema comes from the signature, its descriptions from the docstring.

What a function yields is shown to readers while it runs, and the last value is the result.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import re
import reprlib
import typing
from collections.abc import AsyncGenerator, Callable, Container
from contextlib import aclosing, closing
from typing import Any, cast, overload

import pydantic
from pydantic.fields import FieldInfo

from actors.definitions.schemas import arguments_schema, json_schema
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ReadonlyContext, Report, ToolContext
from actors.errors import DefinitionError
from actors.errors.hints import explains_wrong_calls, no_such_field, problems
from actors.errors.user_code import UserFunction, UserResult, in_thread
from actors.messages.json_types import JsonMapping, JsonObject
from actors.messages.llm import FunctionDeclaration
from actors.rules.checks.ids import flaw_of_name

logger = logging.getLogger(__name__)


class FunctionTool(Tool):
    """A tool that calls a function. Its parameters become the JSON schema, its docstring the descriptions.

    A sync function runs in a thread. What a function yields is shown to readers while it runs, and the last value is the result.
    A parameter annotated as `ToolContext`, or called `tool_context`, is filled in and not shown to the model. The tool can still
    be called like the function itself.

    Args:
        func: what to call, sync or async.
        name: for the model; by default the function's name.
        description: for the model; by default the docstring up to its first section.
        require_confirmation: True pauses the turn before each call until the user answers `{"confirmed": true}` to allow it,
            or `{"confirmed": false}` to refuse; default False.
        needs: resources for each call, in Ray's terms: num_cpus, num_gpus, memory (bytes) and resources (amount by name). A tool
            with needs runs as a task where the cluster has them, and cannot take a ToolContext. Default none.

    Raises:
        DefinitionError: the function has no name, or one that services of models refuse; its signature has no JSON schema; or it
            has needs, and takes a ToolContext or yields.
    """

    @explains_wrong_calls
    def __init__(
        self,
        func: UserFunction,
        *,
        name: str | None = None,
        description: str | None = None,
        require_confirmation: bool = False,
        needs: JsonMapping | None = None,
    ) -> None:
        if not callable(func):
            raise DefinitionError(f"{type(self).__name__} needs a function, not {type(func).__name__}")
        self.func = func
        self.runs_nodes = names_run_node(func)
        self.require_confirmation = require_confirmation
        self.needs = dict(needs or {})
        self.name = name if name is not None else str(getattr(func, "__name__", ""))
        if not self.name or self.name == "<lambda>":
            raise DefinitionError(f"a tool needs a name: give one to FunctionTool(…, name=…) for {func!r}")
        if (wrong := flaw_of_name(self.name)) is not None:
            raise DefinitionError(f"{wrong}: give it as FunctionTool(…, name=…), or @tool(name=…)")
        summary, of_parameters = _docstring(inspect.getdoc(_unbound(func)) or "")
        self.description = description if description is not None else summary
        # An object may have an async __call__.
        self._is_async = inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(type(func).__call__)
        self._context_parameter, self._fields = _fields(self.name, func, of_parameters)
        if self.needs and self._context_parameter is not None:
            raise DefinitionError(
                f"tool {self.name!r} runs in a task of its own: it cannot take a ToolContext ({self._context_parameter!r})"
            )
        if self.needs and yields(func):
            raise DefinitionError(f"tool {self.name!r} runs in a task of its own: it cannot yield, and has to return its result")
        self._arguments = _argument_model(self.name, self._fields)

    def __call__(self, *args: object, **kwargs: object) -> UserResult:
        """Call the function directly, as if it were no tool."""
        return self.func(*args, **kwargs)

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        schema = arguments_schema(self._arguments)
        return FunctionDeclaration(
            name=self.name, description=self.description, parameters=schema if schema.get("properties") else None
        )

    async def run(self, args: JsonObject, context: ToolContext) -> UserResult:
        """Check the arguments and call the function. Arguments that it does not take are dropped, with a line in the log.

        Raises:
            ValueError: an argument is missing or of the wrong type; the message helps the model to correct it.
            Exception: whatever the function raises.
        """
        given = self.checked(without_unknown(args, self._fields, self.name, context.agent_name))
        if self.needs:
            return await context.offload(self.func, given, self.needs)
        if self._context_parameter is not None:
            given[self._context_parameter] = context
        if self._is_async:
            return await self.func(**given)
        if yields(self.func):
            return await last_value(self.func, given, context.report_progress)
        result = await in_thread(self.func, **given)
        return await result if inspect.isawaitable(result) else result

    def checked(self, args: JsonObject) -> JsonObject:
        """The arguments as the types that the function wants. Raises ValueError."""
        try:
            checked = self._arguments.model_validate(args)
        except pydantic.ValidationError as error:
            takes = ", ".join(self._fields) or "no arguments"
            raise ValueError(f"wrong arguments for {self.name}: {problems(error)}. It takes: {takes}") from error
        names = {_field(index): name for index, name in enumerate(self._fields)}
        return {names[field]: getattr(checked, field) for field in checked.model_fields_set}

    def __getstate__(self) -> dict[str, object]:
        # The argument model is made again from its fields. These are pickled, for they cannot be read from the function again:
        # one of `__main__` is pickled without the names that only its annotations use.
        return {name: value for name, value in vars(self).items() if name != "_arguments"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._arguments = _argument_model(self.name, self._fields)


_NEEDS = {"num_cpus", "num_gpus", "memory", "resources"}
_KEYWORDS = ("name", "description", "long_running", "require_confirmation", *sorted(_NEEDS))


def without_unknown(args: JsonObject, known: Container[str], tool_name: str, agent: str) -> JsonObject:
    """The arguments that a tool knows. Models make up others beside them: those are dropped, and named in the log."""
    unknown = [name for name in args if name not in known]
    if not unknown:
        return args
    named = reprlib.repr(sorted(unknown))
    logger.warning("tool %r of agent %r: dropped arguments that it does not take: %s", tool_name, agent, named)
    return {name: value for name, value in args.items() if name in known}


class LongRunningFunctionTool(FunctionTool):
    """A FunctionTool whose answer may come in a later turn: when the function returns None, the turn pauses until it comes."""

    is_long_running = True


@overload
def tool(function: UserFunction, /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    long_running: bool = False,
    require_confirmation: bool = False,
    **needs: object,
) -> Callable[[UserFunction], FunctionTool]: ...
def tool(
    function: UserFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    long_running: bool = False,
    require_confirmation: bool = False,
    **needs: object,
) -> FunctionTool | Callable[[UserFunction], FunctionTool]:
    """Make a function a tool, as `@tool`, `@tool(name=…, long_running=True)` or `@tool(num_cpus=2)`.

    Args:
        function: what to call, sync or async.
        name: for the model; by default the function's name.
        description: for the model; by default the docstring up to its first section.
        long_running: the function may return None, and the answer comes in a later turn; default False.
        require_confirmation: each call waits until the user agrees, as in FunctionTool; default False.
        needs: num_cpus, num_gpus, memory (bytes) or resources (amount by name) for each call, as in FunctionTool.

    Raises:
        DefinitionError: the function cannot be a FunctionTool, or a keyword is not known.
    """
    unknown = sorted(set(needs) - _NEEDS)
    if unknown:
        raise DefinitionError(f"@tool: {unknown[0]}: {no_such_field(unknown[0], _KEYWORDS)}")
    cls = LongRunningFunctionTool if long_running else FunctionTool
    if function is not None:
        return cls(function)
    return lambda decorated: cls(
        decorated, name=name, description=description, require_confirmation=require_confirmation, needs=needs
    )


Fields = dict[str, tuple[object, FieldInfo]]
"""The arguments that the model gives, by name: annotation and field."""


def _fields(tool_name: str, function: UserFunction, descriptions: dict[str, str]) -> tuple[str | None, Fields]:
    """The parameter that takes the context, None without one; and all others."""
    signature = inspect.signature(function)
    try:
        hints = typing.get_type_hints(_code(function), include_extras=True)
    except (NameError, TypeError) as error:
        raise DefinitionError(f"tool {tool_name!r}: an annotation cannot be resolved: {error}") from error
    context_parameter = None
    fields: Fields = {}
    for parameter in signature.parameters.values():
        annotation = hints.get(parameter.name, Any)
        if parameter.name == "tool_context" or annotation in (ToolContext, CallbackContext, ReadonlyContext):
            context_parameter = parameter.name
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise DefinitionError(f"tool {tool_name!r}: parameter {parameter.name!r} must be an ordinary named one")
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            # Without a description the keyword is left out: None would overrule the one that the annotation has.
            described: JsonObject = {"description": descriptions[parameter.name]} if parameter.name in descriptions else {}
            fields[parameter.name] = (annotation, pydantic.Field(default, alias=parameter.name, **described))
    return context_parameter, fields


def _unbound(function: UserFunction) -> UserFunction:
    """The function inside `functools.partial` objects, which has the docstring and the annotations."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _field(index: int) -> str:
    # Arguments are known by their aliases, so one may be called `copy`, `schema` or `_x`, which no field of a BaseModel can be.
    return f"argument_{index}"


def _argument_model(tool_name: str, fields: Fields) -> type[pydantic.BaseModel]:
    try:
        config = pydantic.ConfigDict(extra="forbid")
        by_index = {_field(index): field for index, field in enumerate(fields.values())}
        model: type[pydantic.BaseModel] = pydantic.create_model(tool_name, __config__=config, **cast(Any, by_index))
        json_schema(model)
    except (pydantic.errors.PydanticUserError, NameError, TypeError) as error:
        raise DefinitionError(f"tool {tool_name!r}: its signature has no JSON schema: {error}") from error
    return model


_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"^(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text of a docstring before its first section, and the descriptions of parameters in its Args section."""
    summary: list[str] = []
    descriptions: dict[str, str] = {}
    section = ""
    current = ""
    for line in text.splitlines():
        if header := _SECTION.match(line):
            section = header[1]
        elif not section:
            summary.append(line)
        elif section in ("Args", "Arguments", "Parameters"):
            argument = _ARGUMENT.match(line.strip())
            indent = len(line) - len(line.lstrip())
            if argument and indent <= 4:
                current = argument[1]
                descriptions[current] = argument[2]
            elif current and line.strip():
                descriptions[current] = f"{descriptions[current]} {line.strip()}".strip()
    return "\n".join(summary).strip(), descriptions


def names_run_node(function: Callable[..., Any]) -> bool:
    """True for code that names `run_node`."""
    called = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(called, "__code__", None) or getattr(type(called).__call__, "__code__", None)
    return code is not None and "run_node" in code.co_names


def yields(function: UserFunction) -> bool:
    """True for a function, or a callable object, that yields what it gives, async or not."""
    called = _code(function)
    return inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)


async def last_value(function: UserFunction, arguments: JsonObject, report: Report) -> UserResult:
    """Call a function that yields, report each value, and return the last; or what a sync one returns, if that is not None.

    Raises:
        BaseException: whatever the function, or reporting, raises.
    """
    if not inspect.isasyncgenfunction(_code(function)):
        # In one thread: what a function opens, such as a connection to SQLite, may be for that thread only.
        return await in_thread(_last_value, function, arguments, report, asyncio.get_running_loop())
    last: UserResult = None
    async with aclosing(cast(AsyncGenerator[Any, None], function(**arguments))) as values:
        async for last in values:
            await report(last)
    return last


def _last_value(function: UserFunction, arguments: JsonObject, report: Report, loop: asyncio.AbstractEventLoop) -> UserResult:
    last: UserResult = None
    with closing(function(**arguments)) as values:
        while True:
            try:
                last = next(values)
            except StopIteration as end:
                return last if end.value is None else end.value
            asyncio.run_coroutine_threadsafe(report(last), loop).result()


def _code(function: UserFunction) -> UserFunction:
    """The function that runs, inside of `functools.partial` objects, or of an object that can be called."""
    function = _unbound(function)
    return function if inspect.isroutine(function) else type(function).__call__
