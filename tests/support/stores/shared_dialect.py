"""Stores of tests share what SQLAlchemy has compiled for SQLite: thousands are opened, and each would compile it anew."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from sqlalchemy import Engine

from runtime.stores.sql import database


def share_compiled_queries() -> None:
    """Give all engines for SQLite that this process creates one dialect, and one cache of compiled queries."""
    create: Callable[..., Engine] = vars(database)["create_engine"]
    shared = create("sqlite://", isolation_level="AUTOCOMMIT")
    # A dialect learns at the first connection what its database can do.
    shared.connect().close()
    compiled = vars(shared)["_compiled_cache"]

    @wraps(create)
    def create_engine(*given: Any, **options: Any) -> Engine:
        engine = create(*given, **options)
        if engine.dialect.name == "sqlite":
            vars(engine).update(dialect=shared.dialect, _compiled_cache=compiled)
            vars(engine.pool).update(_dialect=shared.dialect)
        return engine

    vars(database)["create_engine"] = create_engine
