"""`raygrove users`: deletes all data of a user, in the stores of a stopped app, or through an app that runs on a cluster."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from actors.rules.checks.ids import checked_app_name, checked_known_id
from runtime.console.options import Memory, Store, existing_session_store
from runtime.console.output import print_table
from runtime.engine.interface import Engine
from runtime.settings import Settings

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
) -> None:
    """Delete all data of a user: sessions, artifacts, memory and state. Turns of the user are cancelled first."""
    from runtime.engine.store_urls import open_artifact_store
    from runtime.engine.user_deletion import delete_user

    checked_known_id("user id", user)
    checked_app_name(app_name)
    if address is not None:
        engine = _joined(app_name, address)
    else:
        engine = _stopped(app_name, existing_session_store(app_name, store), memory, artifacts)
    engine.prepare()

    async def work() -> dict[str, int]:
        await engine.start()
        try:
            assert engine.artifact_store is not None
            deleted = await delete_user(engine, open_artifact_store(engine.artifact_store), app_name, user)
        finally:
            await engine.leave()
        return {field: getattr(deleted, field) for field in deleted.__struct_fields__}

    counts = asyncio.run(work())
    print_table(("deleted", "number"), [(name.replace("_", " "), str(count)) for name, count in counts.items()])


def _joined(app_name: str, address: str) -> Engine:
    from runtime.cluster.deployment.joined import JoinedEngine

    return JoinedEngine(app_name, Settings(), address)


def _stopped(app_name: str, sessions: str, memory: str | None, artifacts: str | None) -> Engine:
    """An engine over the stores, for an app that does not run. Raises StoreError when it does, as far as that can be known."""
    from actors.definitions.agents import CustomAgent
    from actors.definitions.tree import AgentTree
    from runtime.engine.deployment import Deployment
    from runtime.engine.local import LocalEngine
    from runtime.engine.store_urls import DEFAULT, resolve_stores
    from runtime.stores.sql.database import Database
    from runtime.stores.transfer.in_use import refuse_if_in_use

    settings = Settings().model_copy(update={"session_shards": 1, "runners": 1, "model_limits": {}})
    stores = resolve_stores(app_name, settings, sessions, artifacts or DEFAULT, memory or DEFAULT)
    database = Database(sessions)
    database.open()
    try:
        refuse_if_in_use(database, "give the --address of its cluster, call rt.users.delete in its program, or stop it first")
    finally:
        database.close()
    return LocalEngine(
        Deployment(
            app_name=app_name,
            tree=AgentTree(CustomAgent(name="operator")),
            session_store=stores.session,
            artifact_store=stores.artifact,
            memory_store=stores.memory,
            settings=settings,
        )
    )
