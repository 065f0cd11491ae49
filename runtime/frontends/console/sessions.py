"""`raygrove sessions`: `list`, `show` and `export` read the database, whether or not the app runs.

`import`, `rewind` and `delete` are for an app that is stopped, or go through one that runs on a cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from actors.messages import codec
from runtime.driver.operation import local_time
from runtime.frontends.console import options, runtimes
from runtime.frontends.console.output import print_json, print_result, print_table

if TYPE_CHECKING:
    from actors.interfaces.stores import SessionRow
    from actors.layers.stores.parts import SessionStore
    from actors.messages.event import Event
    from actors.messages.session import Session


PAGE = 1_000
"""Events that are read at once."""

User = Annotated[str | None, typer.Option(help="Only sessions of this user.")]
Most = Annotated[int | None, typer.Option("--limit", min=1, help="Only so many.")]


def list_sessions(
    app_name: options.StoredApp, user: User = None, limit: Most = None, store: options.Store = None, json: options.Json = False
) -> None:
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


def show(
    app_name: options.StoredApp,
    session: options.Session,
    user: User = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Print the events of a session, oldest first."""
    from runtime.frontends.console.lines import event_lines

    with _opened(app_name, store) as opened:
        events = list(_events(*found_session(opened, app_name, user, session)))
    if json:
        for event in events:
            print(event.to_json())
        return
    rows = [(str(event.seq), event.author, kind, text) for event in events for kind, text in event_lines(event)]
    print_table(("seq", "author", "kind", "text"), rows)


def export(app_name: options.StoredApp, session: options.Session, user: User = None, store: options.Store = None) -> None:
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
    from actors.messages.event import decode_event

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
        stores = [open_session_store(url, Settings()) for url in runtimes.existing_session_stores(app_name, urls)]
        for store in stores:
            stack.callback(store.close)
            store.open()
        _check_all_named(app_name, stores)
        yield stores


def _check_all_named(app_name: str, stores: Sequence[SessionStore]) -> None:
    """Raise StoreError if these are not all stores of the app: what is in the others would be missing."""
    from actors.layers.placing.rules import seating
    from actors.layers.stores.records import FoundStore

    seating(app_name, [FoundStore(str(store), seat=store.seat(app_name), is_empty=False) for store in stores])


STANDARD_INPUT = "-"

INSTEAD = ("stop it first",)
"""What to do when the app runs, beside giving its address."""

SHARED = ("app:", "user:", "temp:")
"""Beginnings of keys that are no state of the session."""

File = Annotated[str, typer.Argument(metavar="FILE", help="JSON lines, as `export` prints them; - is the standard input.")]
NewUser = Annotated[str | None, typer.Option(help="Whose session it becomes; by default the one that the file names.")]
NewSession = Annotated[str | None, typer.Option("--session", help="Its id; by default the one that the file names.")]
Invocation = Annotated[str, typer.Argument(metavar="INVOCATION", help="The first turn that is taken back.", show_default=False)]


def import_(
    app_name: options.StoredApp,
    file: File,
    session: NewSession = None,
    user: NewUser = None,
    store: options.Store = None,
    address: options.AppAddress = None,
    json: options.Json = False,
) -> None:
    """Make a session out of what `export` has printed. The app must be stopped, or named with its --address.

    Events get new positions. State of the user and the app changes as far as the events change it. Turns are events only: none of
    them can be answered or attached.
    """
    from actors.errors import StoreError

    if file != STANDARD_INPUT and not Path(file).is_file():
        raise StoreError(f"there is no file {file!r}")
    with sys.stdin.buffer if file == STANDARD_INPUT else Path(file).open("rb") as lines:
        told, events = _read(lines, file)
    user, session = user or told.user_id, session or told.id
    # Unlike the others it makes a store where there is none.
    urls = runtimes.session_stores(app_name, store) if address is None else []
    with (
        runtimes.joined(app_name, address) if address is not None else runtimes.stopped_app(app_name, urls, instead=INSTEAD) as rt
    ):
        state = {key: value for key, value in told.state.items() if not key.startswith(SHARED)}
        rt.sessions.create(user, session, state)
        for event in events:
            rt.sessions.append_event(user, session, event)
    fields = {"userId": user, "id": session, "events": len(events)}
    print_result(fields, f"session {session} of {user} has {len(events)} events", json=json)


def rewind(
    app_name: options.StoredApp,
    session: options.Session,
    invocation: Invocation,
    user: User = None,
    store: options.Store = None,
    artifacts: options.Artifacts = None,
    address: options.AppAddress = None,
    json: options.Json = False,
) -> None:
    """Take a session back to before a turn, with its artifacts. The app must be stopped, or named with its --address."""
    with runtimes.opened_app(app_name, store, address, instead=INSTEAD, artifacts=artifacts) as rt:
        owner = runtimes.user_of(rt, session, user)
        rt.sessions.rewind(owner, session, invocation)
    fields = {"userId": owner, "id": session, "rewoundBefore": invocation}
    print_result(fields, f"session {session} of {owner} is as it was before {invocation}", json=json)


def delete(
    app_name: options.StoredApp,
    session: options.Session,
    user: User = None,
    store: options.Store = None,
    artifacts: options.Artifacts = None,
    address: options.AppAddress = None,
    json: options.Json = False,
) -> None:
    """Delete a session with its artifacts. The app must be stopped, or named with its --address."""
    with runtimes.opened_app(app_name, store, address, instead=INSTEAD, artifacts=artifacts) as rt:
        owner = runtimes.user_of(rt, session, user)
        rt.sessions.delete(owner, session)
    fields = {"userId": owner, "id": session, "deleted": True}
    print_result(fields, f"session {session} of {owner} is deleted", json=json)


def _read(lines: BinaryIO, file: str) -> tuple[Session, list[Event]]:
    """The session and its events. Raises StoreError."""
    import msgspec

    from actors.errors import RaygroveError, StoreError
    from actors.messages.event import Event
    from actors.messages.session import Session

    numbered: Iterator[tuple[int, bytes]] = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    events: list[Event] = []
    told: Session | None = None
    for number, line in numbered:
        try:
            if told is None:
                told = codec.decode_json(line, Session)
            else:
                events.append(_without_rewind(Event.from_json(line)))
        except (msgspec.DecodeError, RaygroveError, ValueError) as error:
            what = "an event" if told is not None else "a session"
            raise StoreError(
                f"line {number} of {file} is not {what}, as `raygrove sessions export` prints it: {error}"
            ) from error
    if told is None:
        raise StoreError(f"{file} is empty: `raygrove sessions export` prints what can be imported")
    return told, events


def _without_rewind(event: Event) -> Event:
    """An event whose rewind has been done: what it took back is not exported."""
    import msgspec

    if event.actions.rewind_before_invocation_id is None:
        return event
    actions = msgspec.structs.replace(event.actions, rewind_before_invocation_id=None)
    return msgspec.structs.replace(event, actions=actions)


app = typer.Typer(no_args_is_help=True, help="Read, export, import, rewind and delete sessions.")
app.command("list")(list_sessions)
app.command()(show)
app.command()(export)
app.command("import")(import_)
app.command()(rewind)
app.command()(delete)
