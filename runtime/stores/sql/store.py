"""What every store on a SQL database has: a database, and tables that it creates or checks when it is opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from sqlalchemy import Connection

from actors.errors import RaygroveError
from runtime.stores.sql.database import Database, SqlTransaction


class SqlStore(ABC):
    """A store on SQLite or PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __str__(self) -> str:
        return str(self._database)

    @property
    def takes_many_writers(self) -> bool:
        """Whether several copies may be used at the same time, in any processes: True on PostgreSQL, False on SQLite."""
        return not self._database.is_sqlite

    def open(self) -> None:
        """Connect, and create or check the tables. May be called again after `close`.

        Raises:
            SchemaVersionError: a newer version of raygrove has created the tables.
            StoreError: the store cannot be reached, or the database's driver or part is not installed.
        """
        self.close()
        try:
            self._database.open()
            with self._database.transaction() as transaction:
                self._prepare(transaction.connection)
        except RaygroveError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise self._database.failure(error) from error

    def erase_traces(self) -> None:
        """Take what was deleted out of SQLite's write-ahead log; its file has zeros in place of it already. Raises StoreError."""
        self._database.erase_traces()

    def close(self) -> None:
        """Close the connection and its file. Closing twice is no error."""
        self._database.close()

    def _within(self, work: Callable[[SqlTransaction], None]) -> None:
        """Do some work in one transaction. Raises what the work raises of this project's errors, and StoreError."""
        with self._database.store_errors(), self._database.transaction() as transaction:
            work(transaction)

    @abstractmethod
    def _prepare(self, connection: Connection) -> None:
        """Create or check the tables, in one transaction."""
