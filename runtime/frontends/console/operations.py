"""Commands of declared operations: see runtime.driver.operation."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec
import typer
from typer.core import TyperGroup

from runtime.driver.operation import AppOperation, Command, Option, Table
from runtime.frontends.console import options, runtimes
from runtime.frontends.console.output import WatchedLine, follow, print_json, print_table

T = TypeVar("T")


class WithOperations(TyperGroup):
    """A group of commands, to which those of declared operations are added when they are needed.

    The declarations stand with the services, which take a while to import: other commands do without them.
    """

    @property
    def commands(self) -> Any:
        """All commands by their names."""
        return {**self._written, **commands_in(self.name or "")}

    @commands.setter
    def commands(self, written: Any) -> None:
        self._written = written

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; None if there is none."""
        return self._written.get(cmd_name) or self.commands.get(cmd_name)


@cache
def commands_in(group: str) -> Mapping[str, Any]:
    """The commands of declared operations in a group of commands, by their names; "": those in none."""
    from runtime.driver.services.services import OPERATIONS

    found = typer.Typer()
    for operation in OPERATIONS:
        if (command := operation.command) is not None:
            above, _, name = command.name.rpartition(" ")
            if above == group:
                found.command(name, rich_help_panel=None if group else "Deployments that run")(function_of(operation, command))
    return typer.main.get_group(found).commands


def function_of(operation: AppOperation, command: Command) -> Callable[..., None]:
    """The function of a command, with the parameters that typer reads."""
    fields = _fields(operation)
    of_input = msgspec.structs.fields(operation.takes) if operation.takes is not None else ()
    required = [each.name for each in of_input if each.required]

    def call(name: str, address: str | None, json: bool, watch: bool = False, user: str | None = None, **given: Any) -> None:
        asked = {field: _read(option, given[field]) for field, option in fields.items() if given[field] not in (None, False)}
        if command.otherwise is not None and not asked:
            done, inputs = command.otherwise, []
        else:
            if lacks := [field for field in required if field not in asked]:
                raise typer.BadParameter(f"give {' and '.join(field.upper() for field in lacks)} with what is to be done")
            done, inputs = operation, [operation.takes(**asked)] if operation.takes is not None else []
        named = {part: given[part] for part in operation.parts}
        with runtimes.joined(name, address) as rt:
            if operation.users != "none":
                session = {**named, **asked}.get("session")
                named["user_id"] = runtimes.user_of(rt, session, user) if session is not None else user

            def look() -> Table:
                found = asyncio.run(_result(done.call(rt.aio, *inputs, **named)))
                return command.show(found, inputs[0] if inputs else None)

            found = look()
            if watch:
                follow(found.columns, lambda: [_watched(*line) for line in look().lines], json=json)
                return
        if json:
            print_json([found.whole] if found.whole is not None else [line.data for line in found.lines])
            return
        if found.columns:
            print_table(found.columns, [line.cells for line in found.lines])
        if found.note:
            print(found.note)

    parameters = _parameters(operation, command, fields)
    call.__doc__ = command.help or operation.run.__doc__
    call.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _parameters(operation: AppOperation, command: Command, fields: Mapping[str, Option]) -> list[Parameter]:
    """The arguments and options of a command, in their order."""
    found: dict[str, tuple[Any, object]] = {"name": (options.Name, Parameter.empty)}
    for part in operation.parts:
        found[part] = Annotated[str, typer.Argument(metavar=part.upper(), show_default=False)], Parameter.empty
    found.update({field: _parameter(field, option) for field, option in fields.items() if option.is_argument})
    if "{user}" in operation.path:
        found["user"] = Annotated[str, typer.Argument(metavar="USER", help="The user's id.", show_default=False)], Parameter.empty
    elif operation.users != "none":
        option = typer.Option("--user", help=command.user_help)
        is_needed = operation.users == "one" and "session" not in (*operation.parts, *fields)
        found["user"] = (Annotated[str, option], Parameter.empty) if is_needed else (Annotated[str | None, option], None)
    found.update({field: _parameter(field, option) for field, option in fields.items() if not option.is_argument})
    if command.watched:
        found["watch"] = options.Watch, False
    found.update(address=(options.Address, None), json=(options.Json, False))
    kind = Parameter.POSITIONAL_OR_KEYWORD
    return [Parameter(name, kind, default=default, annotation=hint) for name, (hint, default) in found.items()]


def _fields(operation: AppOperation) -> dict[str, Option]:
    """The fields of an input, and how each is given; those that are not annotated are not."""
    if operation.takes is None:
        return {}
    hints = get_type_hints(operation.takes, include_extras=True)
    return {name: each.of(name) for name, hint in hints.items() for each in get_args(hint) if isinstance(each, Option)}


def _parameter(field: str, option: Option) -> tuple[Any, object]:
    """The parameter of a field, and its default."""
    if option.is_argument:
        return Annotated[str | None, typer.Argument(metavar=option.metavar, help=option.help, show_default=False)], None
    if option.is_flag:
        return Annotated[bool, typer.Option(option.name, help=option.help)], False
    return Annotated[str | None, typer.Option(option.name, metavar=option.metavar, help=option.help)], None


def _read(option: Option, given: Any) -> object:
    """The value of a field. Raises typer.BadParameter."""
    if option.read is None:
        return given
    try:
        return option.read(given)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option.name) from None


async def _result(work: Awaitable[T]) -> T:
    return await work


def _watched(cells: Sequence[str], data: object) -> WatchedLine:
    return WatchedLine(cells[0], tuple(cells), cells, data)
