"""The stores of an app that does not run, opened as its Runtime would open them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from actors.definitions.agents import CustomAgent
from actors.rules.checks.ids import checked_app_name
from runtime.driver.runtime import Runtime
from runtime.engine.store_urls import DEFAULT
from runtime.settings import Settings
from runtime.stores.sql.database import Database
from runtime.stores.transfer.in_use import refuse_if_in_use


@contextmanager
def stopped_app(
    app_name: str, store: str, *, instead: str, memory: str | None = None, artifacts: str | None = None
) -> Iterator[Runtime]:
    """A Runtime over the stores of an app, which runs no turns.

    Args:
        store: URL of the session store.
        instead: what to do when the app runs.

    Raises:
        StoreError: the app runs, as far as that can be known, or a store cannot be used.
    """
    checked_app_name(app_name)
    database = Database(store)
    database.open()
    try:
        refuse_if_in_use(database, instead)
    finally:
        database.close()
    with Runtime(
        CustomAgent(name="operator"),
        app_name=app_name,
        engine="local",
        session_store=store,
        artifact_store=artifacts or DEFAULT,
        memory_store=memory or DEFAULT,
        settings=Settings().model_copy(update={"session_shards": 1, "runners": 1, "model_limits": {}}),
    ) as rt:
        yield rt
