"""The command `raygrove`: runs apps from their code, looks after deployments that run, and after stored data."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated, Any

import typer

from actors.errors import OverloadedError, RaygroveError, RequestError, UpdateConflictError
from runtime.frontends.console import options
from runtime.frontends.console.acting import answer, cancel, retry
from runtime.frontends.console.deployments import rollback, start, stop, update, upgrade
from runtime.frontends.console.doctor import doctor
from runtime.frontends.console.evaluation import evaluate_sets
from runtime.frontends.console.logs import logs
from runtime.frontends.console.operations import WithOperations
from runtime.frontends.console.output import AGAIN, FAILED, WRONG_USAGE, print_error, print_json
from runtime.frontends.console.overview import ps, top, tree
from runtime.frontends.console.run import batch, chat, run
from runtime.frontends.console.schedules import app as schedules
from runtime.frontends.console.serve import serve, ui
from runtime.frontends.console.sessions import app as sessions
from runtime.frontends.console.stores import store, users
from runtime.frontends.console.turns import attach, describe, tail, turns

_APPS, _DEPLOYMENTS, _DATA, _MACHINE = "Apps", "Deployments that run", "Stored data", "This machine"

_ELSEWHERE = {
    "backup": "store backup",
    "costs": "usage",
    "deploy": "start",
    "drain": "stop NAME --drain",
    "inspect": "describe",
    "kill": "cancel",
    "list": "ps",
    "prune": "store prune",
    "replace": "update",
    "restart": "stop NAME --drain, then raygrove start PATH --resume",
    "restore": "store copy",
    "show": "describe",
    "status": "ps",
}
"""What is called otherwise elsewhere."""


class NamedElsewhere(WithOperations):
    """Commands, of which some are called otherwise elsewhere."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the arguments. Raises click's UsageError."""
        known = _ELSEWHERE.get(args[0]) if args else None
        if known is not None:
            ctx.fail(f"No such command {args[0]!r}: it is raygrove {known}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. One whose reader has enough, such as `head`, ends as any other."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit from None
        finally:
            # What is left is written when the interpreter ends, where nothing can be done about it.
            try:
                sys.stdout.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(cls=NamedElsewhere, no_args_is_help=True, pretty_exceptions_enable=False, help="Trees of LLM agents on Ray.")
_OF_APPS: tuple[Callable[..., None], ...] = (run, chat, tree, batch, serve)
_OF_DEPLOYMENTS: tuple[Callable[..., None], ...] = (
    start,
    stop,
    update,
    rollback,
    upgrade,
    ps,
    top,
    ui,
    turns,
    describe,
    logs,
    tail,
    attach,
    answer,
    retry,
    cancel,
)

for command in _OF_APPS:
    app.command(rich_help_panel=_APPS)(command)
app.command("eval", rich_help_panel=_APPS)(evaluate_sets)
for command in _OF_DEPLOYMENTS:
    app.command(rich_help_panel=_DEPLOYMENTS)(command)
app.add_typer(
    typer.Typer(cls=WithOperations, no_args_is_help=True, help="List, steer and cancel agents that work in the background."),
    name="background",
    rich_help_panel=_DEPLOYMENTS,
)
app.add_typer(schedules, name="schedules", rich_help_panel=_DEPLOYMENTS)
app.add_typer(sessions, name="sessions", rich_help_panel=_DATA)
app.add_typer(users, name="users", rich_help_panel=_DATA)
app.add_typer(store, name="store", rich_help_panel=_DATA)
app.command(rich_help_panel=_MACHINE)(doctor)


def _print_version(given: bool) -> None:
    if given:
        version()
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the versions and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Trees of LLM agents on Ray."""


@app.command(rich_help_panel=_MACHINE)
def version(json: options.Json = False) -> None:
    """Print the versions of raygrove, Ray and Python."""
    python, own, ray = ".".join(map(str, sys.version_info[:3])), metadata.version("raygrove"), metadata.version("ray")
    if json:
        print_json([{"raygrove": own, "ray": ray, "python": python}])
    else:
        print(f"raygrove {own}, Ray {ray}, Python {python}")


def main() -> None:
    """Run the command. Errors of this project are printed in one line, below the traceback of users' code if there is one."""
    try:
        app()
    except RaygroveError as error:
        print_error(error)
        sys.exit(exit_code_of(error))


def exit_code_of(error: RaygroveError) -> int:
    """The exit code of a command that an error has ended."""
    if isinstance(error, OverloadedError | UpdateConflictError):
        return AGAIN
    return WRONG_USAGE if isinstance(error, RequestError) else FAILED
