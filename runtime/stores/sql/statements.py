"""Statements that find nothing, sent past SQLAlchemy where that pays: those of a commit, which are always the same.

`Connection.exec_driver_sql` makes a context and a result for each statement. In a small commit to SQLite that takes more time
than the database's own work without the disk. With PostgreSQL each statement waits for the network, so SQLAlchemy sends it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


def execute(connection: Connection, sql: str, rows: Sequence[Any] = ((),)) -> None:
    """Run a statement that finds nothing, once for each row of values.

    Raises:
        sqlalchemy.exc.DBAPIError: what `exec_driver_sql` raises.
    """
    driver = connection.connection.dbapi_connection
    if not isinstance(driver, sqlite3.Connection):
        connection.exec_driver_sql(sql, list(rows) if len(rows) > 1 else rows[0])
        return
    try:
        if len(rows) > 1:
            driver.executemany(sql, rows)
        else:
            driver.execute(sql, rows[0])
    except sqlite3.Error as error:
        raise DBAPIError.instance(sql, None, error, sqlite3.Error, dialect=connection.dialect) from error
