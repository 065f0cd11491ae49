"""The stores of an app: through the app itself where it runs on a cluster, else opened as its Runtime would open them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from actors.layers.custom.definitions import CustomAgent
from actors.rules.checks.ids import checked_app_name
from runtime.driver.runtime import Runtime
from runtime.engine.store_urls import DEFAULT
from runtime.frontends.console.joining import joined
from runtime.frontends.console.options import existing_session_stores
from runtime.settings import Settings
from runtime.stores.sql.database import Database
from runtime.stores.transfer.in_use import refuse_if_in_use


def opened_app(
    app_name: str,
    store: Sequence[str] | None,
    address: str | None,
    *,
    instead: Sequence[str],
    memory: str | None = None,
    artifacts: str | None = None,
) -> AbstractContextManager[Runtime]:
    """A Runtime that has joined an app on a cluster; without an address `stopped_app` over stores that are there.

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


@contextmanager
def stopped_app(
    app_name: str, stores: Sequence[str], *, instead: Sequence[str], memory: str | None = None, artifacts: str | None = None
) -> Iterator[Runtime]:
    """A Runtime over the stores of an app, which runs no turns.

    Args:
        stores: URLs of the session stores.
        instead: what may be done when the app runs, beside giving its address, which the local engine does not have.

    Raises:
        StoreError: the app runs, as far as that can be known, or a store cannot be used.
    """
    checked_app_name(app_name)
    for store in stores:
        database = Database(store)
        database.open()
        try:
            refuse_if_in_use(database, _either("give the --address of its cluster", *instead), _either(*instead))
        finally:
            database.close()
    with Runtime(
        CustomAgent(name="operator"),
        app_name=app_name,
        engine="local",
        session_store=stores[0] if len(stores) == 1 else list(stores),
        artifact_store=artifacts or DEFAULT,
        memory_store=memory or DEFAULT,
        settings=Settings().model_copy(update={"session_shards": 1, "runners": 1, "model_limits": {}}),
    ) as rt:
        yield rt


def _either(*advice: str) -> str:
    """Advice in words: "this, that, or the other"."""
    *others, last = advice
    return f"{', '.join(others)}, or {last}" if others else last
