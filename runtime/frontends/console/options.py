"""What several commands take, and the stores that it names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from actors.errors import StoreError
from actors.rules.checks.ids import checked_app_name
from runtime.driver.operation import age_s

AppName = Annotated[str, typer.Argument(metavar="APP", help="The app_name of the Runtime.")]
App = Annotated[str | None, typer.Option("--app", help="The app_name of the Runtime, for its default stores in .raygrove.")]
Store = Annotated[
    list[str] | None,
    typer.Option(
        help="URL of the session store; of several stores each, in their order. By default the app's file in .raygrove."
    ),
]
Memory = Annotated[str | None, typer.Option(help="URL of the memory store; by default beside the session store.")]

Artifacts = Annotated[str | None, typer.Option(help="URL of the artifact store; by default .raygrove/artifacts.")]
Address = Annotated[str | None, typer.Option(help="Address of the Ray cluster on which the app runs; its own stores are used.")]

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


def parsed_age(text: str) -> float:
    """A time span in seconds, such as that of `90d`. Raises typer.BadParameter."""
    try:
        return age_s(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def given_age(text: str | None) -> float | None:
    """The same of an option that may be left out; None where it was."""
    return parsed_age(text) if text is not None else None


def session_store(app_name: str | None, urls: Sequence[str] | None) -> str:
    """The URL of the session store that is meant, by a command that is for one. Raises StoreError, InvalidIdError."""
    found = session_stores(app_name, urls)
    if len(found) > 1:
        raise StoreError(f"this command is for one store, and {len(found)} are named: call it for each, with one --store")
    return found[0]


def session_stores(app_name: str | None, urls: Sequence[str] | None) -> list[str]:
    """The URLs of the session stores that are meant. Raises StoreError when none is named, InvalidIdError."""
    if urls:
        return list(urls)
    # Imported here: not every command has a store.
    from runtime.engine.store_urls import default_session_store
    from runtime.settings import Settings

    if app_name is None:
        raise StoreError("say which store: name the app with --app, or a URL with --store")
    return [default_session_store(checked_app_name(app_name), Settings())]


def existing_session_store(app_name: str | None, urls: Sequence[str] | None) -> str:
    """The same as `session_store` for one that has to be there: opening a missing one would create it. Raises StoreError."""
    return _existing(session_store(app_name, urls))


def existing_session_stores(app_name: str | None, urls: Sequence[str] | None) -> list[str]:
    """The same as `session_stores` for those that have to be there. Raises StoreError."""
    return [_existing(url) for url in session_stores(app_name, urls)]


def _existing(url: str) -> str:
    path = url.removeprefix("sqlite:///")
    if path != url and not Path(path).is_file():
        raise StoreError(f"there is no session store {path!r}: name it with --store, or go where the app has run")
    return url
