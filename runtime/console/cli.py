"""The command `raygrove`: runs apps from their code, and looks after stored data."""

from __future__ import annotations

import sys
from importlib import metadata

import typer

from actors.errors import RaygroveError, RequestError
from runtime.console import sessions, stores, users
from runtime.console.apps.chat import chat
from runtime.console.apps.evaluation import evaluate_sets
from runtime.console.apps.run import run
from runtime.console.apps.serve import serve
from runtime.console.batches.command import batch
from runtime.console.output import print_error

FAILED, WRONG_USAGE = 1, 2
"""Exit codes for errors."""

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Trees of LLM agents on Ray.")
app.command()(run)
app.command()(chat)
app.command("eval")(evaluate_sets)
app.command()(serve)
app.command()(batch)
app.add_typer(sessions.app, name="sessions")
app.add_typer(users.app, name="users")
app.add_typer(stores.app, name="store")


@app.command()
def version() -> None:
    """Print the versions of raygrove, Ray and Python."""
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"raygrove {metadata.version('raygrove')}, Ray {metadata.version('ray')}, Python {python}")


def main() -> None:
    """Run the command. Errors of this project are printed in one line, below the traceback of users' code if there is one."""
    try:
        app()
    except RaygroveError as error:
        print_error(error)
        sys.exit(WRONG_USAGE if isinstance(error, RequestError) else FAILED)
