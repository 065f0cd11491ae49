"""The Runtime of an app that was loaded from its code, on the engine that the options name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.driver.runtime import Runtime
from runtime.loading.app import LoadedApp, load_app


@dataclass(frozen=True)
class Where:
    """Which Runtime to make.

    Attributes:
        path: of the app.
        app_name: None: that of the app.
        store: URL of the session store; None: the app's file in the data folder.
        ray: on a Ray of its own; else on the local engine.
        address: of a Ray cluster; None: none.
    """

    path: str
    app_name: str | None = None
    store: str | None = None
    ray: bool = False
    address: str | None = None


def open_app(where: Where, **options: Any) -> Runtime:
    """Load an app and make its Runtime, not started yet. Raises what `load_app` and Runtime raise."""
    app = load_app(where.path)
    on_ray = where.ray or where.address is not None
    if on_ray:
        _prepare_modules(app, is_cluster=where.address is not None)
    if where.store is not None:
        options["session_store"] = where.store
    return Runtime(
        app.root,
        app_name=where.app_name or app.name,
        engine="ray" if on_ray else "local",
        address=where.address,
        settings=app.settings(on_ray=on_ray),
        **options,
    )


def _prepare_modules(app: LoadedApp, *, is_cluster: bool) -> None:
    """See that the code of the app reaches other processes. Nodes of a cluster need not have its files."""
    if is_cluster or not app.is_importable:
        import sys

        from runtime.cluster.packing.modules import travel_by_value

        travel_by_value(sys.modules[app.module.__name__.partition(".")[0]])
