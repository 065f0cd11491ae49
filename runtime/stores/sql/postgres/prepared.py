"""Statements that libpq runs by itself, each prepared when it is run first on a connection.

psycopg looks at the statement, at each value and at the result anew: more than half of the client's CPU of a small commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ExecStatus, Format

from runtime.stores.sql.postgres.arrays import Value

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

MAX_PREPARED = 64
"""Statements that stay prepared on a connection."""


class PreparedStatements:
    """Statements of one connection at a time."""

    def __init__(self) -> None:
        self._driver: Any = None
        # By the SQL, the one that was run last at the end.
        self._names: dict[str, bytes] = {}
        self._numbers = count()

    def rows(self, driver: Any, sql: str, values: Sequence[Value]) -> int:
        """Run a statement, and count the rows that it gives.

        Args:
            driver: a connection of psycopg. Nothing else may use it meanwhile.
            sql: with a placeholder `%s` for each value.
            values: of the same types each time.

        Raises:
            psycopg.Error: the server has refused it, or the connection broke.
        """
        if driver is not self._driver:
            self._driver = driver
            self._names.clear()
        name = self._names.pop(sql, None) or self._prepare(sql, values)
        self._names[sql] = name
        try:
            return self._run(name, values)
        except InvalidSqlStatementName:
            # psycopg, or a pooler, has dropped all that were prepared. Nothing was done.
            self._names.clear()
            self._names[sql] = name = self._prepare(sql, values)
            return self._run(name, values)

    def _run(self, name: bytes, values: Sequence[Value]) -> int:
        found = self._driver.pgconn.exec_prepared(name, [value.data for value in values], [Format.BINARY] * len(values))
        return _checked(found).ntuples

    def _prepare(self, sql: str, values: Sequence[Value]) -> bytes:
        if len(self._names) >= MAX_PREPARED:
            oldest = self._names.pop(next(iter(self._names)))
            _checked(self._driver.pgconn.exec_(b"DEALLOCATE " + oldest))
        name = b"raygrove_%d" % next(self._numbers)
        first, *others = sql.split("%s")
        numbered = first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))
        _checked(self._driver.pgconn.prepare(name, numbered.encode(), [value.oid for value in values]))
        return name


def _checked(result: PGresult) -> PGresult:
    if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        raise error_from_result(result)
    return result
