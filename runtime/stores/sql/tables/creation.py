"""Creates the tables of a store that has none yet."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, MetaData, create_mock_engine
from sqlalchemy.schema import CreateIndex, CreateTable

from runtime.stores.sql import statements


def create_tables(connection: Connection, metadata: MetaData) -> None:
    """Create all tables and indexes that are missing.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database could not do it.
    """
    if connection.dialect.name != "sqlite":
        metadata.create_all(connection)
        return
    for statement in _statements(metadata):
        statements.execute(connection, statement)


@cache
def _statements(metadata: MetaData) -> tuple[str, ...]:
    # `create_all` asks for each table, and writes each statement anew: most of what it takes to open a new file.
    written: list[str] = []

    def write(statement: Any, *_: Any, **__: Any) -> None:
        if isinstance(statement, CreateTable | CreateIndex):
            statement.if_not_exists = True
        written.append(str(statement.compile(dialect=engine.dialect)))

    engine = create_mock_engine("sqlite://", write)
    metadata.create_all(engine, checkfirst=False)
    return tuple(written)
