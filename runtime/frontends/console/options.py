"""What several commands take, and the stores that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actors.errors import StoreError
from actors.rules.checks.ids import checked_app_name

AppName = Annotated[str, typer.Argument(metavar="APP", help="The app_name of the Runtime.")]
App = Annotated[str | None, typer.Option("--app", help="The app_name of the Runtime, for its default stores in .raygrove.")]
Store = Annotated[str | None, typer.Option(help="URL of the session store; by default the app's file in .raygrove.")]
Memory = Annotated[str | None, typer.Option(help="URL of the memory store; by default beside the session store.")]

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


def session_store(app_name: str | None, url: str | None) -> str:
    """The URL of the session store that is meant. Raises StoreError when none is named, InvalidIdError."""
    if url is not None:
        return url
    # Imported here: not every command has a store.
    from runtime.engine.store_urls import default_session_store
    from runtime.settings import Settings

    if app_name is None:
        raise StoreError("say which store: name the app with --app, or a URL with --store")
    return default_session_store(checked_app_name(app_name), Settings())


def existing_session_store(app_name: str | None, url: str | None) -> str:
    """The same for a store that has to be there: opening a missing one would create it. Raises StoreError."""
    url = session_store(app_name, url)
    path = url.removeprefix("sqlite:///")
    if path != url and not Path(path).is_file():
        raise StoreError(f"there is no session store {path!r}: name it with --store, or go where the app has run")
    return url
