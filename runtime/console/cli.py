"""The command `raygrove`: looks after stored data. It opens the database itself, whether or not the app runs."""

from __future__ import annotations

import sys
from importlib import metadata

import typer

from actors.errors import RaygroveError
from runtime.console import sessions, stores, users
from runtime.console.output import print_error

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Trees of LLM agents on Ray.")
app.add_typer(sessions.app, name="sessions")
app.add_typer(users.app, name="users")
app.add_typer(stores.app, name="store")


@app.command()
def version() -> None:
    """Print the versions of raygrove, Ray and Python."""
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"raygrove {metadata.version('raygrove')}, Ray {metadata.version('ray')}, Python {python}")


def main() -> None:
    """Run the command. Errors of this project are printed in one line."""
    try:
        app()
    except RaygroveError as error:
        print_error(error)
        sys.exit(1)
