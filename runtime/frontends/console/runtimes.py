"""The Runtime that a command works with: of an app's code, of a deployment that runs, or over the stores of a stopped app.

What takes long to import is imported where it is used: every command begins with this module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from logging import LogRecord
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.errors import ClusterError, DeploymentNotFoundError, RequestError, StoreError
from actors.errors.hints import did_you_mean
from actors.rules.checks.ids import checked_app_name
from runtime.frontends.loading.places import is_code, is_plain, meant_place

if TYPE_CHECKING:
    from runtime.cluster.deployments import NamedActor
    from runtime.driver.runtime import Runtime
    from runtime.frontends.loading.app import LoadedApp

_PROC = Path("/proc")
_GCS = "gcs_server"
"""The process that every Ray has."""

MANY = 1_000
"""How many open turns are looked at."""


@dataclass(frozen=True)
class Where:
    """Which Runtime to make.

    Attributes:
        app_name: None: that of the app.
        store: URLs of the session stores; None: the app's file in the data folder.
        ray: on a Ray of its own; else on the local engine.
        address: of a Ray cluster; None: none.
        records: what models are asked is recorded, whatever the setting says.
    """

    path: str
    app_name: str | None = None
    store: Sequence[str] | None = None
    ray: bool = False
    address: str | None = None
    records: bool = False


def open_app(where: Where, **options: Any) -> Runtime:
    """Load an app and make its Runtime, not started yet. Raises what `load_app` and Runtime raise."""
    from runtime.driver.runtime import Runtime
    from runtime.frontends.loading.app import load_app

    app = load_app(where.path)
    on_ray = where.ray or where.address is not None
    if on_ray:
        _prepare_modules(app, is_cluster=where.address is not None)
    if where.store:
        options["session_store"] = where.store[0] if len(where.store) == 1 else list(where.store)
    app_name = where.app_name or app.name
    root = _tree(app.root, app_name)
    settings = app.settings(on_ray=on_ray)
    if where.records:
        settings = settings.model_copy(update={"record_requests": 1.0})
    return Runtime(
        root,
        app_name=app_name,
        engine="ray" if on_ray else "local",
        address=where.address,
        settings=settings,
        **options,
    )


def load_tree(path: str, app_name: str) -> object:
    """The tree of an app's code for a deployment on a cluster. Raises what `load_app` raises."""
    from runtime.frontends.loading.app import load_app

    app = load_app(path)
    _prepare_modules(app, is_cluster=True)
    return _tree(app.root, app_name)


def _tree(root: object, app_name: str) -> object:
    """The tree for a Runtime. One of google-adk runs with islands, and notes say what that changes."""
    from runtime.frontends.loading.app import is_adk

    if not is_adk(root):
        return root
    from runtime.integrations.adk.convert import from_adk

    adapted = from_adk(root, app_name=app_name, islands=True)
    for note in adapted.notes:
        print(f"note: {note}", file=sys.stderr)
    return adapted


def open_named(where: Where) -> Runtime:
    """An app from its code, or a deployment, not started yet. Raises what `open_app` and `deployment_of` raise."""
    deployment = deployment_of(where)
    return deployment if deployment is not None else open_app(where)


def deployment_of(where: Where) -> Runtime | None:
    """The deployment that a path names, not joined yet; None for code.

    A plain name is that of a deployment. Where a folder has it, too, the deployment is meant if it lives, unless an option goes
    with code only; `./NAME` is the folder.

    Raises:
        RequestError: there is neither such a folder nor such a deployment, or an option goes with code only.
        ClusterError: the deployment does not answer.
    """
    of_code = [
        option for option, value in (("--ray", where.ray), ("--store", where.store), ("--app-name", where.app_name)) if value
    ]
    if not is_plain(where.path) or (of_code and is_code(where.path)):
        return None
    hint = meant_place(where.path)
    if of_code:
        why = f"{of_code[0]} goes with code, and {where.path!r} is the name of a deployment: for code write a path"
        raise RequestError(f"{why}.{hint}" if hint else why)
    if is_code(where.path):
        # Where no Ray runs, it is not imported to learn that.
        if where.address is None and not _any_ray_runs():
            return None
        try:
            deployment = joined(where.path, where.address)
        except ClusterError:
            return None
        print(f"{where.path} is the deployment that runs; ./{where.path} is the code", file=sys.stderr)
        return deployment
    try:
        return joined(where.path, where.address)
    except ClusterError as error:
        why = f".{hint}" if hint else f": {error}"
        raise RequestError(f"there is no folder or file {where.path!r}, and it names no deployment that runs{why}") from error


def _prepare_modules(app: LoadedApp, *, is_cluster: bool) -> None:
    """See that the code of the app reaches other processes. Nodes of a cluster need not have its files."""
    if is_cluster or not app.is_importable:
        from runtime.cluster.packing.pickling import travel_by_value

        travel_by_value(sys.modules[app.module.__name__.partition(".")[0]])


def joined(name: str, address: str | None, logs: Callable[[LogRecord], object] | None = None) -> Runtime:
    """A deployment that runs, for a `with` block, which joins it; leaving the block stops nothing.

    Args:
        logs: gets what agents log and print.

    Raises:
        DeploymentNotFoundError: it does not run; the error names those that do.
        ClusterError: there is no Ray, or, when the block is entered, the deployment does not answer.
    """
    from runtime.driver.runtime import Runtime
    from runtime.settings import Settings

    settings = Settings()
    where, running = _running(address)
    here = sorted(each.app for each in running if each.namespace == settings.namespace)
    if name not in here:
        elsewhere = sorted({each.namespace for each in running if each.app == name})
        raise DeploymentNotFoundError(name, settings.namespace, f"The Ray is the one at {where}. {_hint(name, here, elsewhere)}")
    return Runtime.connect(name, address=where, settings=settings, logs=logs or False)


def running_apps(address: str | None) -> list[NamedActor]:
    """The first actor of each deployment in this namespace. Raises ClusterError."""
    from runtime.settings import Settings

    namespace = Settings().namespace
    return [each for each in _running(address)[1] if each.namespace == namespace]


def user_of(rt: Runtime, session: str, user: str | None) -> str:
    """Whose session it is.

    Args:
        user: as the command line names it.

    Raises:
        RequestError: there is no such session, or several users have one.
    """
    if user is not None:
        if rt.sessions.get(user, session, num_recent_events=0) is None:
            raise RequestError(f"user {user!r} has no session {session!r} in {rt.app_name!r}")
        return user
    sessions = rt.sessions.list()
    users = [each.user_id for each in sessions if each.id == session]
    if len(users) > 1:
        raise RequestError(f"session {session!r} is there of several users: choose with --user {' or '.join(users)}")
    if not users:
        known = list(dict.fromkeys(each.id for each in sessions))
        hint = did_you_mean(session, known) or f" The newest ones: {', '.join(known[:5]) or 'none'}."
        raise RequestError(f"there is no session {session!r} in {rt.app_name!r}.{hint}")
    return users[0]


def find_ray(address: str | None) -> str:
    """Where the Ray is that is meant, as `host:port`. Raises ClusterError when none is named, and none runs here."""
    from runtime.cluster.deployments import ray_address

    return ray_address(address)


def _any_ray_runs() -> bool:
    """False when there is certainly no Ray here, and none is named."""
    if os.environ.get("RAY_ADDRESS") or not _PROC.is_dir():
        return True
    for comm in _PROC.glob("[0-9]*/comm"):
        # It may end meanwhile.
        with suppress(OSError):
            if comm.read_text().strip() == _GCS:
                return True
    return False


def _running(address: str | None) -> tuple[str, list[NamedActor]]:
    """The address of the Ray that is meant, and the first actor of each deployment on it, in whatever namespace."""
    from runtime.cluster.deployments import apps_of, named_actors

    where = find_ray(address)
    return where, apps_of(named_actors(where))


def _hint(name: str, here: list[str], elsewhere: list[str]) -> str:
    match elsewhere:
        case [namespace]:
            return f"It runs in namespace {namespace!r}: set RAYGROVE_NAMESPACE={namespace!r}"
        case [_, *_]:
            return f"It runs in the namespaces {', '.join(map(repr, elsewhere))}: set RAYGROVE_NAMESPACE to one of them"
    if not here:
        return "No app is: `raygrove start PATH` starts one from its code"
    return f"Apps that are: {', '.join(here)}.{did_you_mean(name, here)}"


def opened_app(
    app_name: str,
    store: Sequence[str] | None,
    address: str | None,
    *,
    instead: Sequence[str],
    memory: str | None = None,
    artifacts: str | None = None,
) -> Runtime:
    """A Runtime for a `with` block, which joins an app on a cluster; without an address `stopped_app` over stores that are there.

    Args:
        store: URLs of the session stores; None: the app's file in .raygrove.
        address: of the Ray cluster on which the app runs; its own stores are used.
        instead: what may be done when the app runs, beside giving its address.

    Raises:
        StoreError: there is no such store, or the app runs, or a store cannot be used.
        ClusterError: the app cannot be joined.
    """
    if address is not None:
        return joined(app_name, address)
    return stopped_app(app_name, existing_session_stores(app_name, store), instead=instead, memory=memory, artifacts=artifacts)


def stopped_app(
    app_name: str, stores: Sequence[str], *, instead: Sequence[str], memory: str | None = None, artifacts: str | None = None
) -> Runtime:
    """A Runtime over the stores of an app, which runs no turns, for a `with` block, too.

    Args:
        stores: URLs of the session stores.
        instead: what may be done when the app runs, beside giving its address, which the local engine does not have.

    Raises:
        StoreError: the app runs, as far as that can be known, or a store cannot be used.
    """
    from actors.layers.custom.definitions import CustomAgent
    from runtime.driver.runtime import Runtime
    from runtime.engine.store_urls import DEFAULT
    from runtime.settings import Settings
    from runtime.stores.sql.database import Database
    from runtime.stores.sql.owners import refuse_if_in_use

    checked_app_name(app_name)
    for store in stores:
        database = Database(store)
        database.open()
        try:
            refuse_if_in_use(database, _either("give the --address of its cluster", *instead), _either(*instead))
        finally:
            database.close()
    return Runtime(
        CustomAgent(name="operator"),
        app_name=app_name,
        engine="local",
        session_store=stores[0] if len(stores) == 1 else list(stores),
        artifact_store=artifacts or DEFAULT,
        memory_store=memory or DEFAULT,
        settings=Settings().model_copy(update={"session_shards": 1, "runners": 1, "model_limits": {}}),
    )


def _either(*advice: str) -> str:
    """Advice in words: "this, that, or the other"."""
    *others, last = advice
    return f"{', '.join(others)}, or {last}" if others else last


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
