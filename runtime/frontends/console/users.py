"""`raygrove users`: moves or deletes all data of a user, in the stores of a stopped app, or through one that runs."""

from __future__ import annotations

from typing import Annotated

import typer

from actors.rules.checks.ids import checked_app_name, checked_known_id
from runtime.frontends.console.operations import WithOperations
from runtime.frontends.console.options import Address, Artifacts, Json, Memory, Store
from runtime.frontends.console.output import print_json, print_table

app = typer.Typer(cls=WithOperations, no_args_is_help=True, help="Move the data of users between stores, and delete them.")


@app.command()
def move(
    user: Annotated[str, typer.Argument(metavar="USER", help="The user's id.")],
    to: Annotated[str, typer.Option(metavar="URL", help="The store in which the user is to be: one of those of the app.")],
    app_name: Annotated[str, typer.Option("--app", help="The app_name of the Runtime.")],
    store: Store = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Move all data of a user to another store of the app. Turns of the user are waited for, for a minute at most."""
    checked_known_id("user id", user)
    checked_app_name(app_name)
    from runtime.engine.store_urls import shown_session_store
    from runtime.frontends.console.stopped import opened_app

    instead = ("call rt.users.move in its program", "stop it first")
    with opened_app(app_name, store, address, instead=instead) as rt:
        moved = rt.users.move(user, to)
    if json:
        print_json([moved])
    elif not moved.has_data:
        print(f"there are no data of {user}: turns of this user begin in {shown_session_store(to)}")
    elif moved.before == moved.now:
        print(f"{user} is there already")
    else:
        print(f"{user} was moved, with {moved.rows} rows")


@app.command()
def delete(
    user: Annotated[str, typer.Argument(metavar="USER", help="The user's id.")],
    app_name: Annotated[str, typer.Option("--app", help="The app_name of the Runtime.")],
    store: Store = None,
    memory: Memory = None,
    artifacts: Artifacts = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Delete all data of a user: sessions, artifacts, memory and state. Turns of the user are cancelled first."""
    checked_known_id("user id", user)
    checked_app_name(app_name)
    # Imported here: completion needs no Runtime.
    from runtime.frontends.console.stopped import opened_app

    instead = ("call rt.users.delete in its program", "stop it first")
    with opened_app(app_name, store, address, instead=instead, memory=memory, artifacts=artifacts) as rt:
        deleted = rt.users.delete(user)
    if json:
        print_json([deleted])
        return
    print_table(
        ("deleted", "number"), [(field.replace("_", " "), str(getattr(deleted, field))) for field in deleted.__struct_fields__]
    )
