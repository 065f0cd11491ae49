"""A Python function as a tool: its schema comes from the signature, its descriptions from the docstring."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, cast, overload

import pydantic
from pydantic.fields import FieldInfo

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ReadonlyContext, ToolContext
from actors.definitions.tools.json_schema import json_schema
from actors.errors import DefinitionError
from actors.errors.user_code import in_thread
from actors.messages.model import FunctionDeclaration


class FunctionTool(Tool):
    """A tool that calls a function.

    The function may be sync, then it runs in a thread, or async. A parameter annotated as `ToolContext` (or called
    `tool_context`) is filled in and not shown to the model.

    Args:
        function: what to call.
        name: for the model; by default the function's name.
        description: for the model; by default the docstring up to its sections.
        needs: resources for a run, by the names num_cpus, num_gpus, memory (bytes) and resources (by name). A tool that
            needs some runs in a task of its own, where the cluster has them, and cannot take a ToolContext.
        require_confirmation: pause the turn before the function is called, until the user answers `{"confirmed": true}` to call
            it, or `{"confirmed": false}` not to.

    Raises:
        DefinitionError: the signature cannot be told as a JSON schema, or a need cannot be met for it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        require_confirmation: bool = False,
        needs: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.require_confirmation = require_confirmation
        self.needs = dict(needs or {})
        self.name = name if name is not None else str(getattr(function, "__name__", ""))
        if not self.name or self.name == "<lambda>":
            raise DefinitionError(f"a tool needs a name: give one to FunctionTool(…, name=…) for {function!r}")
        summary, told = _docstring(inspect.getdoc(_unbound(function)) or "")
        self.description = description if description is not None else summary
        # An object with an async __call__ is as good a tool as an async function.
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        self._context_parameter, self._fields = _fields(self.name, function, told)
        if self.needs and self._context_parameter is not None:
            raise DefinitionError(
                f"tool {self.name!r} runs in a task of its own: it cannot take a ToolContext ({self._context_parameter!r})"
            )
        self._arguments = _model(self.name, self._fields)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, as for any other caller."""
        return self.function(*args, **kwargs)

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        schema = json_schema(self._arguments)
        schema.pop("title", None)
        for field in schema.get("properties", {}).values():
            field.pop("title", None)
        return FunctionDeclaration(
            name=self.name, description=self.description, parameters=schema if schema.get("properties") else None
        )

    async def run(self, args: dict[str, Any], context: ToolContext) -> Any:
        """Check the arguments and call the function.

        Raises:
            ValueError: an argument is missing, unknown or of the wrong type; told so that the model can mend it.
            Exception: whatever the function raises.
        """
        given = self._checked(args)
        if self.needs:
            return await context.offload(self.function, given, self.needs)
        if self._context_parameter is not None:
            given[self._context_parameter] = context
        if self._is_async:
            return await self.function(**given)
        return await in_thread(self.function, **given)

    def _checked(self, args: dict[str, Any]) -> dict[str, Any]:
        try:
            checked = self._arguments.model_validate(args)
        except pydantic.ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors())
            takes = ", ".join(self._fields) or "no arguments"
            raise ValueError(f"wrong arguments for {self.name}: {wrong}. It takes: {takes}") from error
        names = {_field(index): name for index, name in enumerate(self._fields)}
        return {names[field]: getattr(checked, field) for field in checked.model_fields_set}

    def __getstate__(self) -> dict[str, Any]:
        # The argument model need not travel. Its fields must: a function of `__main__` is pickled without the names that
        # only its annotations use, and those are texts under `from __future__ import annotations`.
        return {name: value for name, value in vars(self).items() if name != "_arguments"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._arguments = _model(self.name, self._fields)


_NEEDS = {"num_cpus", "num_gpus", "memory", "resources"}
_NEEDED = ", ".join(sorted(_NEEDS))


class LongRunningTool(FunctionTool):
    """A function whose answer may come in a later turn: returning None means "not yet", and pauses the turn."""

    is_long_running = True


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    long_running: bool = False,
    require_confirmation: bool = False,
    **needs: Any,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    long_running: bool = False,
    require_confirmation: bool = False,
    **needs: Any,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function, as `@tool`, `@tool(name=…, long_running=True)` or `@tool(num_cpus=2)`.

    Args:
        name: for the model; by default the function's name.
        description: for the model; by default the docstring up to its sections.
        long_running: the answer may come in a later turn.
        require_confirmation: the function is called only when the user has said yes: see FunctionTool.
        needs: resources for a run: num_cpus, num_gpus, memory, resources. See FunctionTool.

    Raises:
        DefinitionError: see FunctionTool; or a keyword is none of these.
    """
    unknown = sorted(set(needs) - _NEEDS)
    if unknown:
        raise DefinitionError(f"@tool does not know {', '.join(unknown)}: it takes name, description, long_running, {_NEEDED}")
    cls = LongRunningTool if long_running else FunctionTool
    if function is not None:
        return cls(function)
    return lambda decorated: cls(
        decorated, name=name, description=description, require_confirmation=require_confirmation, needs=needs
    )


Fields = dict[str, tuple[Any, FieldInfo]]
"""The arguments that the model gives: by name, the type and what else is known."""


def _fields(tool_name: str, function: Callable[..., Any], told: dict[str, str]) -> tuple[str | None, Fields]:
    """The parameter that takes the context, if any; and all others."""
    signature = inspect.signature(function)
    try:
        unbound = _unbound(function)
        annotated = unbound if inspect.isroutine(unbound) else type(unbound).__call__
        hints = typing.get_type_hints(annotated, include_extras=True)
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
            # Said only where it is known: None would overrule what the annotation says.
            description: dict[str, Any] = {"description": told[parameter.name]} if parameter.name in told else {}
            fields[parameter.name] = (annotation, pydantic.Field(default, alias=parameter.name, **description))
    return context_parameter, fields


def _unbound(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a `functools.partial` was made of: it has the docstring and the annotations."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _field(index: int) -> str:
    # Arguments are told by alias: so one may be called `copy`, `schema` or `_x`, which no field of a BaseModel can be.
    return f"argument_{index}"


def _model(tool_name: str, fields: Fields) -> type[pydantic.BaseModel]:
    try:
        config = pydantic.ConfigDict(extra="forbid")
        shard_name = {_field(index): field for index, field in enumerate(fields.values())}
        model: type[pydantic.BaseModel] = pydantic.create_model(tool_name, __config__=config, **cast(Any, shard_name))
        json_schema(model)
    except (pydantic.errors.PydanticUserError, NameError, TypeError) as error:
        raise DefinitionError(f"tool {tool_name!r}: its signature has no JSON schema: {error}") from error
    return model


_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"^(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """A docstring's text before its sections, and what its Args section says of each parameter."""
    summary: list[str] = []
    told: dict[str, str] = {}
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
                told[current] = argument[2]
            elif current and line.strip():
                told[current] = f"{told[current]} {line.strip()}".strip()
    return "\n".join(summary).strip(), told
