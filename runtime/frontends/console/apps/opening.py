"""The Runtime of an app that was loaded from its code, on the engine that the options name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from actors.errors import ClusterError, RequestError
from runtime.driver.runtime import Runtime
from runtime.frontends.loading.app import LoadedApp, is_adk, load_app
from runtime.frontends.loading.places import is_code, is_plain, meant_place


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
    app = load_app(path)
    _prepare_modules(app, is_cluster=True)
    return _tree(app.root, app_name)


def _tree(root: object, app_name: str) -> object:
    """The tree for a Runtime. One of google-adk runs with islands, and notes say what that changes."""
    if not is_adk(root):
        return root
    from runtime.integrations.adk.convert import from_adk

    adapted = from_adk(root, app_name=app_name, islands=True)
    for note in adapted.notes:
        print(f"note: {note}", file=sys.stderr)
    return adapted


@contextmanager
def open_named(where: Where) -> Iterator[Runtime]:
    """Start an app from its code, or join a deployment: see `deployment_of`.

    Raises:
        RequestError, ClusterError: see `deployment_of`.
        rest: what `open_app` and the start of a Runtime raise.
    """
    deployment = deployment_of(where)
    if deployment is None:
        with open_app(where) as rt:
            yield rt
        return
    from runtime.frontends.console.joining import started

    with started(deployment) as rt:
        yield rt


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
    from runtime.frontends.console.joining import find_deployment, living_deployment

    if is_code(where.path):
        deployment = living_deployment(where.path, where.address)
        if deployment is not None:
            print(f"{where.path} is the deployment that runs; ./{where.path} is the code", file=sys.stderr)
        return deployment
    try:
        return find_deployment(where.path, where.address)
    except ClusterError as error:
        why = f".{hint}" if hint else f": {error}"
        raise RequestError(f"there is no folder or file {where.path!r}, and it names no deployment that runs{why}") from error


def _prepare_modules(app: LoadedApp, *, is_cluster: bool) -> None:
    """See that the code of the app reaches other processes. Nodes of a cluster need not have its files."""
    if is_cluster or not app.is_importable:
        from runtime.cluster.packing.pickling import travel_by_value

        travel_by_value(sys.modules[app.module.__name__.partition(".")[0]])
