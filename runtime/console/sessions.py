"""`raygrove sessions`: what is stored of conversations, read from the database whether or not the app runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from actors.errors import StoreError
from actors.interfaces.records import SessionRow
from actors.interfaces.stores import SessionStore
from actors.messages.codec import decode_event
from runtime.console.event_lines import event_lines
from runtime.console.options import AppName, Store, existing_session_store
from runtime.console.output import local_time, print_table
from runtime.engine import store_urls
from runtime.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Read stored sessions.")

User = Annotated[str | None, typer.Option(help="Only sessions of this user.")]


@app.command("list")
def list_sessions(app_name: AppName, user: User = None, store: Store = None) -> None:
    """List the sessions of an app, the one written last first."""
    with _opened(app_name, store) as opened:
        rows = [
            (found.key.user, found.key.session, str(found.head_seq), local_time(found.updated_s))
            for found in opened.sessions(app_name, user)
        ]
    print_table(("user", "session", "last seq", "written"), rows)


@app.command()
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
    print_table(("seq", "author", "kind", "text"), rows)


@contextmanager
def _opened(app_name: str, url: str | None) -> Iterator[SessionStore]:
    store = store_urls.open_session_store(existing_session_store(app_name, url), Settings())
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
