"""`raygrove sessions list`, `show` and `export`: read from the database, whether or not the app runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.driver.operation import local_time
from runtime.frontends.console.options import AppName, Json, Store, existing_session_stores
from runtime.frontends.console.output import print_json, print_table

if TYPE_CHECKING:
    from actors.interfaces.records import SessionRow
    from actors.interfaces.stores import SessionStore
    from actors.messages.event import Event

PAGE = 1_000
"""Events that are read at once."""

User = Annotated[str | None, typer.Option(help="Only sessions of this user.")]
Most = Annotated[int | None, typer.Option("--limit", min=1, help="Only so many.")]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.", show_default=False)]


def list_sessions(app_name: AppName, user: User = None, limit: Most = None, store: Store = None, json: Json = False) -> None:
    """List the sessions of an app, the one written last first."""
    with _opened(app_name, store) as opened:
        rows = [row for each in opened for row in each.sessions(app_name, user, limit=limit)]
    found = sorted(rows, key=lambda row: (row.updated_s, row.key.user, row.key.session), reverse=True)[:limit]
    if json:
        print_json(
            {"userId": row.key.user, "id": row.key.session, "headSeq": row.head_seq, "lastUpdateTime": row.updated_s}
            for row in found
        )
        return
    cells = [(row.key.user, row.key.session, str(row.head_seq), local_time(row.updated_s)) for row in found]
    print_table(("user", "session", "last seq", "written"), cells)


def show(app_name: AppName, session: SessionId, user: User = None, store: Store = None, json: Json = False) -> None:
    """Print the events of a session, oldest first."""
    from runtime.frontends.console.event_lines import event_lines

    with _opened(app_name, store) as opened:
        events = list(_events(*found_session(opened, app_name, user, session)))
    if json:
        for event in events:
            print(event.to_json())
        return
    rows = [(str(event.seq), event.author, kind, text) for event in events for kind, text in event_lines(event)]
    print_table(("seq", "author", "kind", "text"), rows)


def export(app_name: AppName, session: SessionId, user: User = None, store: Store = None) -> None:
    """Print a session as JSON lines, for `import`: first the session with its state, then each event."""
    from actors.messages.session import Session

    with _opened(app_name, store) as opened:
        kept, row = found_session(opened, app_name, user, session)
        app_state, user_state = kept.state(app_name, row.key.user)
        state = dict(row.state)
        state |= {f"app:{key}": value for key, value in app_state.items()}
        state |= {f"user:{key}": value for key, value in user_state.items()}
        print_json([Session(app_name=app_name, user_id=row.key.user, id=session, state=state, last_update_time=row.updated_s)])
        for event in _events(kept, row):
            print(event.to_json())


def found_session(
    stores: Sequence[SessionStore], app_name: str, user: str | None, session: str
) -> tuple[SessionStore, SessionRow]:
    """The session with an id, of any user, and its store. Raises StoreError when there is none, or several users have one."""
    from actors.errors import StoreError

    found = [(store, row) for store in stores for row in store.sessions(app_name, user) if row.key.session == session]
    if len(found) == 1:
        return found[0]
    if not found:
        raise StoreError(f"no session {session!r} in app {app_name!r}: `raygrove sessions list {app_name}` tells what there is")
    raise StoreError(
        f"session {session!r} is there of several users: choose with --user {' or '.join(row.key.user for _, row in found)}"
    )


def _events(store: SessionStore, row: SessionRow) -> Iterator[Event]:
    from actors.messages.codec import decode_event

    after_seq = 0
    while page := store.events(row.key, after_seq=after_seq, limit=PAGE):
        for seq, raw in page:
            yield decode_event(raw, seq)
        after_seq = page[-1][0]


@contextmanager
def _opened(app_name: str, urls: Sequence[str] | None) -> Iterator[Sequence[SessionStore]]:
    from runtime.engine.store_urls import open_session_store
    from runtime.settings import Settings

    with ExitStack() as stack:
        stores = [open_session_store(url, Settings()) for url in existing_session_stores(app_name, urls)]
        for store in stores:
            stack.callback(store.close)
            store.open()
        _check_all_named(app_name, stores)
        yield stores


def _check_all_named(app_name: str, stores: Sequence[SessionStore]) -> None:
    """Raise StoreError if these are not all stores of the app: what is in the others would be missing."""
    from actors.layers.placing.rules.seats import seating
    from actors.messages.operating.store_seat import FoundStore

    seating(app_name, [FoundStore(str(store), seat=store.seat(app_name), is_empty=False) for store in stores])
