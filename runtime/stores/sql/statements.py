"""Statements sent past SQLAlchemy where that pays: those of a commit, which are always the same, and find nothing or one value.

`Connection.exec_driver_sql` makes a context and a result for each statement. In a small commit to SQLite that takes more time
than the database's own work without the disk. With PostgreSQL each statement waits for the network, so SQLAlchemy sends it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, StatementError


def execute(connection: Connection, sql: str, rows: Sequence[Any] = ((),)) -> None:
    """Run a statement that finds nothing, once for each row of values.

    Raises:
        sqlalchemy.exc.DBAPIError: what `exec_driver_sql` raises.
    """
    driver: object = connection.connection.dbapi_connection
    if not isinstance(driver, sqlite3.Connection):
        connection.exec_driver_sql(sql, list(rows) if len(rows) > 1 else rows[0])
        return
    try:
        if len(rows) > 1:
            driver.executemany(sql, rows)
        else:
            driver.execute(sql, rows[0])
    except sqlite3.Error as error:
        raise _dbapi_error(error, sql, connection) from error


def value(connection: Connection, sql: str, *given: str) -> Any:
    """The one value that a statement finds by those given, for which it has placeholders of the database's driver; None: nothing.

    Raises:
        sqlalchemy.exc.DBAPIError: what `exec_driver_sql` raises.
    """
    driver: object = connection.connection.dbapi_connection
    if not isinstance(driver, sqlite3.Connection):
        return connection.exec_driver_sql(sql, given).scalar()
    try:
        found = driver.execute(sql, given).fetchone()
    except sqlite3.Error as error:
        raise _dbapi_error(error, sql, connection) from error
    return found[0] if found is not None else None


def _dbapi_error(error: sqlite3.Error, sql: str, connection: Connection) -> StatementError:
    return DBAPIError.instance(sql, None, error, sqlite3.Error, dialect=connection.dialect)
