"""Statements sent past SQLAlchemy where that pays: those of a commit, and queries that find thousands of rows, or one session.

`Connection.exec_driver_sql` makes a context and a result for each statement. In a small commit to SQLite that takes more time
than the database's own work without the disk. With PostgreSQL each statement waits for the network, so SQLAlchemy sends it.

Of a query that finds thousands, SQLAlchemy's rows take as long as the reading; and where it asks PostgreSQL, bytes come as text.
To read a session that is not in memory, or to find that it is new, takes half the time, or a quarter.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import ClauseElement, Connection, Dialect, Insert, Select, Table, TextClause
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.sql.compiler import SQLCompiler

Query = Select[*tuple[Any, ...]] | TextClause
"""What finds rows."""

Row = dict[str, Any]
"""Values of a row by column."""

Values = tuple[Any, ...]
"""Values of a row in the order of its columns. The rows of each turn are such, since there are many."""


def execute(connection: Connection, sql: str, rows: Sequence[Any] = ((),)) -> int:
    """Run a statement that finds nothing, once for each row of values. Returns how many rows of tables were changed.

    Raises:
        sqlalchemy.exc.DBAPIError: what `exec_driver_sql` raises.
    """
    driver: object = connection.connection.dbapi_connection
    if not isinstance(driver, sqlite3.Connection):
        return connection.exec_driver_sql(sql, list(rows) if len(rows) > 1 else rows[0]).rowcount
    try:
        if len(rows) > 1:
            return driver.executemany(sql, rows).rowcount
        return driver.execute(sql, rows[0]).rowcount
    except sqlite3.Error as error:
        raise _dbapi_error(error, sql, connection) from error


def value(connection: Connection, sql: str, given: Any) -> Any:
    """The one value that a statement finds by those given, for which it has placeholders of the database's driver; None: nothing.

    Args:
        given: a tuple, or a dictionary where the placeholders have names.

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


def tuples(connection: Connection, query: Query, parameters: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
    """The rows that a query finds by its parameters, as the driver has them.

    Raises:
        sqlalchemy.exc.DBAPIError: what `Connection.execute` raises.
    """
    driver: Any = connection.connection.dbapi_connection
    sql, constants, names = _compiled(query, connection.dialect)
    given = {**constants, **parameters}
    if isinstance(driver, sqlite3.Connection):
        try:
            return driver.execute(sql, [given[name] for name in names]).fetchall()
        except sqlite3.Error as error:
            raise _dbapi_error(error, sql, connection) from error
    errors: Any = connection.dialect.loaded_dbapi
    try:
        found: Sequence[tuple[Any, ...]] = driver.execute(sql, given, binary=True).fetchall()
    except errors.Error as error:
        raise DBAPIError.instance(
            sql, None, error, errors.Error, connection_invalidated=driver.broken, dialect=connection.dialect
        ) from error
    return found


def insert_into(table: Table, dialect: str) -> Any:
    """Insert rows of a table, in a dialect that knows what to do with those that are there."""
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


@cache
def insert_new(table: Table, dialect: str) -> Insert:
    """Insert rows; those that are there stay as they are."""
    statement: Insert = insert_into(table, dialect).on_conflict_do_nothing()
    return statement


@cache
def upsert(table: Table, dialect: str, *, but: str = "") -> Insert:
    """Insert rows, or replace those that are there; columns whose `info` has `but` keep their values."""
    statement = insert_into(table, dialect)
    changing = [column.name for column in table.columns if not column.primary_key and not column.info.get(but)]
    rest = {name: statement.excluded[name] for name in changing}
    upserting: Insert = statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=rest)
    return upserting


@cache
def _compiled(statement: Query, dialect: Dialect) -> tuple[str, Mapping[str, Any], Sequence[str]]:
    """The SQL of a query, the values in it that are no parameters, and the names of its placeholders where they have none."""
    compiled = statement.compile(dialect=dialect)
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    return str(compiled), constants, compiled.positiontup or ()


@cache
def sql_of_rows(statement: ClauseElement, dialect: Dialect, names: tuple[str, ...]) -> tuple[str, Callable[[Row], Values] | None]:
    """The SQL of a statement, and what brings the values of a row into its order; None where they have names in it.

    Args:
        names: the columns and parameters that a row has values of.
    """
    compiled = cast(SQLCompiler, statement.compile(dialect=dialect, column_keys=list(names)))
    if not compiled.positional or compiled.positiontup is None:
        return str(compiled), None
    # All statements have two values at least: with one the getter would give no tuple.
    return str(compiled), itemgetter(*compiled.positiontup)


@cache
def sql_of_values(
    statement: ClauseElement, dialect: Dialect, names: tuple[str, ...]
) -> tuple[str, Callable[[Values], Values | Row] | None]:
    """The same for rows that have the values alone, in the order of the names; None where they are in the statement's order."""
    sql, values_of = sql_of_rows(statement, dialect, names)
    if values_of is None:
        return sql, lambda values: dict(zip(names, values, strict=True))
    order = values_of({name: place for place, name in enumerate(names)})
    return sql, itemgetter(*order) if order != tuple(range(len(names))) else None


def _dbapi_error(error: sqlite3.Error, sql: str, connection: Connection) -> StatementError:
    return DBAPIError.instance(sql, None, error, sqlite3.Error, dialect=connection.dialect)
