"""`raygrove sessions import`, `rewind` and `delete`: of an app that is stopped, or through one that runs on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from runtime.frontends.console.options import Address, AppName, Artifacts, Json, Store, session_stores
from runtime.frontends.console.output import print_json
from runtime.frontends.console.sessions.reading import SessionId, User

if TYPE_CHECKING:
    from actors.messages.event import Event
    from actors.messages.session import Session
    from runtime.driver.runtime import Runtime

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
    app_name: AppName,
    file: File,
    session: NewSession = None,
    user: NewUser = None,
    store: Store = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Make a session out of what `export` has printed. The app must be stopped, or named with its --address.

    Events get new positions. State of the user and the app changes as far as the events change it. Turns are events only: none of
    them can be answered or attached.
    """
    from actors.errors import StoreError
    from runtime.frontends.console.joining import joined
    from runtime.frontends.console.stopped import stopped_app

    if file != STANDARD_INPUT and not Path(file).is_file():
        raise StoreError(f"there is no file {file!r}")
    with sys.stdin.buffer if file == STANDARD_INPUT else Path(file).open("rb") as lines:
        told, events = _read(lines, file)
    user, session = user or told.user_id, session or told.id
    # Unlike the others it makes a store where there is none.
    urls = session_stores(app_name, store) if address is None else []
    with joined(app_name, address) if address is not None else stopped_app(app_name, urls, instead=INSTEAD) as rt:
        state = {key: value for key, value in told.state.items() if not key.startswith(SHARED)}
        rt.sessions.create(user, session, state)
        for event in events:
            rt.sessions.append_event(user, session, event)
    if json:
        print_json([{"userId": user, "id": session, "events": len(events)}])
    else:
        print(f"session {session} of {user} has {len(events)} events")


def rewind(
    app_name: AppName,
    session: SessionId,
    invocation: Invocation,
    user: User = None,
    store: Store = None,
    artifacts: Artifacts = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Take a session back to before a turn, with its artifacts. The app must be stopped, or named with its --address."""
    with _existing(app_name, store, address, artifacts) as rt:
        owner = _user(rt, session, user)
        rt.sessions.rewind(owner, session, invocation)
    if json:
        print_json([{"userId": owner, "id": session, "rewoundBefore": invocation}])
    else:
        print(f"session {session} of {owner} is as it was before {invocation}")


def delete(
    app_name: AppName,
    session: SessionId,
    user: User = None,
    store: Store = None,
    artifacts: Artifacts = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Delete a session with its artifacts. The app must be stopped, or named with its --address."""
    with _existing(app_name, store, address, artifacts) as rt:
        owner = _user(rt, session, user)
        rt.sessions.delete(owner, session)
    if json:
        print_json([{"userId": owner, "id": session, "deleted": True}])
    else:
        print(f"session {session} of {owner} is deleted")


def _existing(
    app_name: str, store: Sequence[str] | None, address: str | None, artifacts: str | None = None
) -> AbstractContextManager[Runtime]:
    from runtime.frontends.console.stopped import opened_app

    return opened_app(app_name, store, address, instead=INSTEAD, artifacts=artifacts)


def _user(rt: Runtime, session: str, user: str | None) -> str:
    from runtime.frontends.console.joining import user_of

    return user_of(rt, session, user)


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
                told = msgspec.json.decode(line, type=Session)
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
