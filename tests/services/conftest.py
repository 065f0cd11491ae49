"""What tests of stores share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.stores.owner import StoreOwner
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.sharded_runtimes import own_tables


@pytest.fixture(params=["sqlite", "postgresql"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., SqlSessionStore]]:
    """Opens another store of one database, for a deployment or for none."""
    url = f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else own_tables(request.getfixturevalue("server"))
    stores = []

    def open_one(owner: StoreOwner | None = None) -> SqlSessionStore:
        store = SqlSessionStore(url)
        store.owner = owner
        store.open()
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        store.close()
