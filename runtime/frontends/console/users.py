"""`raygrove users`: deletes all data of a user, in the stores of a stopped app, or through an app that runs on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from actors.rules.checks.ids import checked_app_name, checked_known_id
from runtime.frontends.console.options import Address, Artifacts, Json, Memory, Store
from runtime.frontends.console.output import print_json, print_table

app = typer.Typer(no_args_is_help=True, help="Delete the data of users.")


@app.callback()
def users() -> None:
    """Have the command beside others: it stands for all that is below it otherwise."""


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

    instead = "give the --address of its cluster, call rt.users.delete in its program, or stop it first"
    with opened_app(app_name, store, address, instead=instead, memory=memory, artifacts=artifacts) as rt:
        deleted = rt.users.delete(user)
    if json:
        print_json([deleted])
        return
    print_table(
        ("deleted", "number"), [(field.replace("_", " "), str(getattr(deleted, field))) for field in deleted.__struct_fields__]
    )
