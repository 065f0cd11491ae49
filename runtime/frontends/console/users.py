"""`raygrove users`: deletes all data of a user, in the stores of a stopped app, or through an app that runs on a cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated

import typer

from actors.rules.checks.ids import checked_app_name, checked_known_id
from runtime.frontends.console.options import Json, Memory, Store, existing_session_store
from runtime.frontends.console.output import print_json, print_table

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime

app = typer.Typer(no_args_is_help=True, help="Delete the data of users.")

Artifacts = Annotated[str | None, typer.Option(help="URL of the artifact store; by default .raygrove/artifacts.")]
Address = Annotated[str | None, typer.Option(help="Address of the Ray cluster on which the app runs; its own stores are used.")]


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
    with _opened(app_name, store, memory, artifacts, address) as rt:
        deleted = rt.users.delete(user)
    if json:
        print_json([deleted])
        return
    print_table(
        ("deleted", "number"), [(field.replace("_", " "), str(getattr(deleted, field))) for field in deleted.__struct_fields__]
    )


def _opened(
    app_name: str, store: str | None, memory: str | None, artifacts: str | None, address: str | None
) -> AbstractContextManager[Runtime]:
    if address is not None:
        from runtime.frontends.console.joining import joined

        return joined(app_name, address)
    from runtime.frontends.console.stopped import stopped_app

    url = existing_session_store(app_name, store)
    instead = "give the --address of its cluster, call rt.users.delete in its program, or stop it first"
    return stopped_app(app_name, url, instead=instead, memory=memory, artifacts=artifacts)
