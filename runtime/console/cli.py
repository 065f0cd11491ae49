"""The command `raygrove`: prints stored sessions. It reads the database itself, whether or not the app runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.errors import RaygroveError, StoreError
from actors.interfaces.records import SessionRow
from actors.interfaces.stores import SessionStore
from actors.messages.codec import decode_event
from actors.rules.checks.ids import checked_app_name
from runtime.console.event_lines import event_lines
from runtime.engine import store_urls
from runtime.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Trees of LLM agents on Ray.")
sessions = typer.Typer(no_args_is_help=True, help="Read stored sessions.")
app.add_typer(sessions, name="sessions")

AppName = Annotated[str, typer.Argument(metavar="APP", help="The app_name of the Runtime.")]
User = Annotated[str | None, typer.Option(help="Only sessions of this user.")]
Store = Annotated[str | None, typer.Option(help="URL of the session store; by default the app's file in .raygrove.")]


@app.command()
def version() -> None:
    """Print the versions of raygrove, Ray and Python."""
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"raygrove {metadata.version('raygrove')}, Ray {metadata.version('ray')}, Python {python}")


@sessions.command("list")
def list_sessions(app_name: AppName, user: User = None, store: Store = None) -> None:
    """List the sessions of an app, the one written last first."""
    with _opened(app_name, store) as opened:
        rows = [
            (found.key.user, found.key.session, str(found.head_seq), _time(found.updated_s))
            for found in opened.sessions(app_name, user)
        ]
    _print(("user", "session", "last seq", "written"), rows)


@sessions.command()
def show(
    app_name: AppName,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    user: User = None,
    store: Store = None,
) -> None:
    """Print the events of a session, oldest first."""
    with _opened(app_name, store) as opened:
        found = _only([row for row in opened.sessions(app_name, user) if row.key.session == session], app_name, session)
        events = [decode_event(raw, seq) for seq, raw in opened.events(found.key)]
    rows = [(str(event.seq), event.author, kind, text) for event in events for kind, text in event_lines(event)]
    _print(("seq", "author", "kind", "text"), rows)


def main() -> None:
    """Run the command. Errors of this project are printed in one line."""
    try:
        app()
    except RaygroveError as error:
        Console(stderr=True).print(Text(f"error: {error}"), soft_wrap=True)
        sys.exit(1)


@contextmanager
def _opened(app_name: str, url: str | None) -> Iterator[SessionStore]:
    settings = Settings()
    url = url or store_urls.default_session_store(checked_app_name(app_name), settings)
    # Opening a missing store would create it.
    path = url.removeprefix("sqlite:///")
    if path != url and not Path(path).is_file():
        raise StoreError(f"there is no session store {path!r}: name it with --store, or go where the app has run")
    store = store_urls.open_session_store(url, settings)
    store.open()
    try:
        yield store
    finally:
        store.close()


def _only(found: Sequence[SessionRow], app_name: str, session: str) -> SessionRow:
    if len(found) == 1:
        return found[0]
    if not found:
        raise StoreError(f"no session {session!r} in app {app_name!r}: `raygrove sessions list {app_name}` tells what there is")
    raise StoreError(
        f"session {session!r} is there of several users: choose with --user {' or '.join(r.key.user for r in found)}"
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds")


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on a terminal, and lines with tabs for other programs."""
    console = Console()
    if not console.is_terminal:
        for row in rows:
            print("\t".join(" ".join(cell.split()) for cell in row))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column != "text")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
