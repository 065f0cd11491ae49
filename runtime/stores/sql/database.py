"""A database by its URL: one connection that stays open, transactions on it, and reconnecting when it breaks.

SQLAlchemy makes a context and a result for each statement. So statements of commits, and queries that find thousands of rows or
one session, go to the driver itself: in a small commit to SQLite the rest takes more time than the database's own work without
the disk, and of a query that finds thousands, SQLAlchemy's rows take as long as the reading.
"""

from __future__ import annotations

import logging
import select
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Dialect, Engine, NullPool, Row, Select, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from actors.errors import RaygroveError, StoreError, StoreUnavailableError
from runtime.stores.sql.sqlite_file import SqliteFile, file_of
from runtime.stores.sql.statements import RowsStatement, Values, register_arrays
from runtime.stores.transient_errors import is_transient, spoils_connection

logger = logging.getLogger(__name__)

LOCK_TIMEOUT_S = 30.0
"""How long one request waits for a lock of another process, in seconds, by default."""

CONNECT_TIMEOUT_S = 5
"""How long connecting to a PostgreSQL server may take, in seconds, if the URL does not say."""

_KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
"""Without these, libpq would wait for hours for the reply of a machine that is gone."""

APPLICATION_NAME = "left('raygrove ' || current_schema(), 63)"
"""SQL: the name by which PostgreSQL lists connections. Stores in other schemas of a database are other stores."""

_OF_KEYS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # A table that is read whole all the same costs so much then that its query would be compiled first, for a second.
    "jit": "off",
}

PLAN_BY_KEYS = "; ".join(f"SET {name} = {value}" for name, value in _OF_KEYS.items())
"""SQL: PostgreSQL plans later statements once, to find rows by keys, whatever their values are.

Left to itself it plans such a statement anew for each few rows, which takes it longer than to run it; and a plan that it has made
while the tables were small, and reads them whole, it keeps until they are analyzed."""

PLAN_BY_VALUES = "; ".join(f"RESET {name}" for name in _OF_KEYS)
"""SQL: PostgreSQL plans later statements for their values, as it does by itself: lists for people."""

_USAGE = "use 'sqlite:///folder/file.db', 'sqlite://' (in memory) or 'postgresql://user:password@host:5432/database'"

_importing = threading.Lock()
"""Stores are opened in threads of their own: a driver is imported by one of them."""

T = TypeVar("T")

Rows = Sequence[Row[*tuple[Any, ...]]]
"""The rows that a query finds."""

Tuples = Sequence[tuple[Any, ...]]
"""The rows that a query finds, as the driver has them."""


class Database:
    """SQLite or PostgreSQL. It may be used from different threads, but not from several at once.

    Args:
        url: `sqlite:///path` (relative), `sqlite:////path` (absolute), `sqlite://` (in memory) or `postgresql://…`.
        what: the kind of store that uses it, for error messages.
        lock_timeout_s: how long one request waits for a lock of another process.

    Attributes:
        is_sqlite: True for SQLite, False for PostgreSQL.
        connections: how many there have been. Behind another one may be an older copy of the database.

    Raises:
        StoreError: the URL is none of these.
    """

    def __init__(self, url: str, what: str = "session store", lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self._what = what
        self._url = _parse(url, what)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self._lock_timeout_s = lock_timeout_s
        self._engine: Engine | None = None
        self._connection: Connection | None = None
        self._may_write = True
        self._plans_by_keys = False
        self.connections = 0
        path = file_of(self._url)
        self._file = SqliteFile(path, str(self)) if path is not None else None

    def __str__(self) -> str:
        return f"{self._what} {self._url.render_as_string(hide_password=True)!r}"

    def open(self) -> None:
        """Prepare to connect; the first call after it connects. The folder of a SQLite file is made if it is missing.

        Raises:
            StoreError: the driver is not installed, or there is no file that could be opened or made.
        """
        try:
            if self._file is not None:
                self._file.prepare()
            with _importing:
                self._engine = _engine(self._url, self._lock_timeout_s)
        except ModuleNotFoundError as error:
            raise StoreError(f"{self} needs the package {error.name!r}: pip install 'raygrove[postgres]'") from error
        except OSError as error:
            raise self.failure(error) from error

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """A transaction: committed at the end of the block, rolled back when the block raises.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database could not begin or commit. Nothing was stored, unless the connection
                broke while it was committing.
            StoreError: the file of the database was deleted or replaced while it was in use.
        """
        try:
            if not self._may_write or self._is_cut():
                # A connection to a read-only file stays read-only, whatever becomes of the file.
                self._drop_connection()
            with self._retried(SqlTransaction, by_keys=True) as transaction:
                yield transaction
                transaction.commit()
            if self._file is not None:
                self._file.check()
        except BaseException as error:
            raised = self._dbapi_error(error)
            self._roll_back(raised)
            if raised is not error:
                raise raised from error
            raise

    def _is_cut(self) -> bool:
        """Whether PostgreSQL's server has closed the connection. What is sent after this may change something.

        It says so without being asked. A request that changes something could not be sent again.
        """
        if self.is_sqlite or self._connection is None:
            return False
        driver: Any = self._connection.connection.dbapi_connection
        if driver.closed:
            return True
        unasked = select.poll()
        unasked.register(driver.fileno(), select.POLLIN)
        return bool(unasked.poll(0))

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A transaction that only reads, and sees the database as it is at its first query, however long it lasts.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database could not begin.
        """
        connection = self._connected()
        connection.exec_driver_sql("BEGIN" if self.is_sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield connection
        finally:
            self._drop_connection()

    def rows(self, query: Any, parameters: dict[str, Any], *, by_keys: bool = False) -> Rows:
        """The rows that a query finds, outside of any transaction.

        Args:
            by_keys: it finds them by keys: see `plans`.

        Raises:
            StoreError: the database failed.
        """
        try:
            return self._retried(lambda connection: connection.execute(query, parameters).fetchall(), by_keys=by_keys)
        except RaygroveError:
            raise
        except Exception as error:
            # Not only the database's errors: drivers raise many classes for values that they cannot send.
            raise self.failure(error) from error

    def tuples(self, query: Select[Any], parameters: dict[str, Any], *, by_keys: bool = False) -> Tuples:
        """The rows that a query finds as its driver has them, outside of any transaction: where SQLAlchemy's rows take too long.

        No column may have a type that SQLAlchemy converts.

        Args:
            by_keys: it finds them by keys: see `plans`.

        Raises:
            StoreError: the database failed.
        """

        def read(connection: Connection) -> Tuples:
            driver: Any = connection.connection.dbapi_connection
            sql, constants, names = _compiled(query, connection.dialect)
            given = {**constants, **parameters}
            if self.is_sqlite:
                found: Tuples = driver.execute(sql, [given[name] for name in names]).fetchall()
            else:
                found = driver.execute(sql, given, binary=True).fetchall()
            return found

        with self.store_errors():
            return self._retried(read, by_keys=by_keys)

    def found(self, query: RowsStatement, rows: Sequence[Values]) -> Tuples:
        """The rows that a query finds by many others, as the driver has them, outside of any transaction; none of none.

        Raises:
            StoreError: the database failed.
        """

        def read(connection: Connection) -> Tuples:
            driver: Any = connection.connection.dbapi_connection
            if not self.is_sqlite:
                found: Tuples = driver.execute(query.postgres, query.arrays(rows), prepare=True, binary=True).fetchall()
                return found
            # Outside of a transaction each statement takes SQLite's locks anew, which takes four times as long as the look-up.
            driver.execute("BEGIN")
            try:
                return [each for row in rows for each in driver.execute(query.sqlite, row)]
            finally:
                driver.execute("COMMIT")

        if not rows:
            return ()
        with self.store_errors():
            return self._retried(read, by_keys=True)

    @contextmanager
    def store_errors(self) -> Iterator[None]:
        """Raise what goes wrong in the block as StoreError: see `failure`."""
        try:
            yield
        except RaygroveError:
            raise
        except Exception as error:
            # Not only the database's errors: drivers raise many classes for values that they cannot send.
            raise self.failure(error) from error

    def failure(self, error: Exception) -> StoreError:
        """A StoreError with the database's own message; a StoreUnavailableError if the error is transient."""
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        reason = f"{type(cause).__name__}: {cause}"
        if getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            reason += ". The file is of something else, or damaged: name another, or move it away"
        return StoreUnavailableError(str(self), reason) if is_transient(error) else StoreError(f"{self}: {reason}")

    def erase_traces(self) -> None:
        """Empty SQLite's write-ahead log, whose old pages have what was deleted since. PostgreSQL's VACUUM is left to the server.

        Raises:
            StoreError: the database failed.
        """
        if not self.is_sqlite:
            return
        found = self.rows(text("PRAGMA wal_checkpoint(TRUNCATE)"), {})
        if found and found[0][0]:
            logger.warning("%s: another process is reading it, so its write-ahead log keeps what was deleted for a while", self)

    def close(self) -> None:
        """Close the connection and its file. Closing twice is no error."""
        self._drop_connection()
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    @property
    def path(self) -> Path | None:
        """The file of a SQLite database; None for one in memory, and for PostgreSQL."""
        return self._file.path if self._file is not None else None

    def _connected(self, *, by_keys: bool = False) -> Connection:
        if self._engine is None:
            raise StoreError(f"{self} is not open: call open() first")
        if self._file is not None:
            self._file.check()
        if self._connection is None:
            self._may_write = self._file is None or not self._file.path.exists() or self._file.may_be_written
            if self._file is not None:
                self._file.make()
            self.connections += 1
            self._connection = self._engine.connect()
            if self._file is not None:
                self._file.note_connected()
        if by_keys is not self._plans_by_keys and not self.is_sqlite:
            self._connection.exec_driver_sql(PLAN_BY_KEYS if by_keys else PLAN_BY_VALUES)
            self._plans_by_keys = by_keys
        return self._connection

    def _retried(self, call: Callable[[Connection], T], *, by_keys: bool = False) -> T:
        # Only for calls that change nothing. The server may have closed the connection since the last call.
        try:
            return call(self._connected(by_keys=by_keys))
        except Exception as error:
            raised = self._dbapi_error(error)
            if not spoils_connection(raised) or self._is_in_memory:
                if raised is not error:
                    raise raised from error
                raise
        self._drop_connection()
        return call(self._connected(by_keys=by_keys))

    def _dbapi_error(self, error: BaseException) -> BaseException:
        """The error of SQLAlchemy for one of the driver; any other one is returned as it is."""
        if self._connection is None:
            return error
        errors: Any = self._connection.dialect.loaded_dbapi
        if not isinstance(error, errors.Error):
            return error
        driver: Any = self._connection.connection.dbapi_connection
        is_broken = not self.is_sqlite and driver.broken
        dialect = self._connection.dialect
        raised: BaseException = DBAPIError.instance(
            None, None, error, errors.Error, connection_invalidated=is_broken, dialect=dialect
        )
        return raised

    @property
    def _is_in_memory(self) -> bool:
        """The database is gone with its connection."""
        return self.is_sqlite and self._file is None

    def _roll_back(self, error: BaseException) -> None:
        if self._connection is None:
            return
        if spoils_connection(error) and not self._is_in_memory:
            # Closing it rolls back as well, and the next request gets a connection that knows nothing of the failure.
            self._drop_connection()
            return
        try:
            self._connection.exec_driver_sql("ROLLBACK")
        except SQLAlchemyError:
            # SQLite refuses only when it has rolled back by itself. With PostgreSQL the state of the connection is unknown.
            if not self.is_sqlite:
                self._drop_connection()

    def _drop_connection(self) -> None:
        if self._connection is not None:
            with suppress(SQLAlchemyError):
                self._connection.close()
            self._connection = None
            self._plans_by_keys = False
            if self._file is not None:
                self._file.forget_log()


class SqlTransaction:
    """A transaction that begins when the object is made, and is a context in which it may be used.

    PostgreSQL is not waited for until a value is read: so BEGIN, the check of a claim and a value take one round trip, all rows
    and COMMIT another one.

    Raises:
        sqlite3.Error, psycopg.Error: what goes wrong in any method. `Database.transaction` has them of SQLAlchemy.
    """

    def __init__(self, connection: Connection) -> None:
        self.is_sqlite = connection.dialect.name == "sqlite"
        self._connection = connection
        self._driver: Any = connection.connection.dbapi_connection
        self._pipeline: Any = None
        self._pipelined = ExitStack()
        # IMMEDIATE takes SQLite's write lock at once, and waits for it; a read that becomes a write fails without waiting.
        self._run("BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN")

    def __enter__(self) -> SqlTransaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pipeline = None
        self._pipelined.__exit__(kind, error, trace)

    @property
    def connection(self) -> Connection:
        """For SQLAlchemy, when all that was sent is done. It is taken anew after each `send` and `found`."""
        self._pipeline = None
        self._pipelined.close()
        return self._connection

    def send(self, statement: RowsStatement, rows: Sequence[Values]) -> None:
        """Run a statement that finds nothing, if there are any rows."""
        if not rows:
            return
        if self.is_sqlite:
            self._driver.executemany(statement.sqlite, rows)
        else:
            self._run(statement.postgres, statement.arrays(rows))

    def found(self, sql: str, values: Sequence[Any]) -> Tuples:
        """The rows that a statement finds, which has a `?` for each value."""
        cursor = self._run(sql, values)
        if self._pipeline is not None:
            # Without a Sync the server takes the transaction for active, and no limit of idle ones ends it.
            self._pipeline.sync()
        rows: Tuples = cursor.fetchall()
        return rows

    def commit(self) -> None:
        """Commit. It is done when the context ends."""
        self._run("COMMIT")

    def _run(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement. Returns a cursor."""
        if self.is_sqlite:
            return self._driver.execute(sql, values)
        if self._pipeline is None:
            self._pipeline = self._pipelined.enter_context(self._driver.pipeline())
        return self._driver.execute(sql.replace("?", "%s"), values, prepare=True, binary=True)


@cache
def _compiled(query: Select[Any], dialect: Dialect) -> tuple[str, Mapping[str, Any], Sequence[str]]:
    """The SQL of a query, the values in it that are no parameters, and the names of its placeholders where they have none."""
    compiled = query.compile(dialect=dialect)
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    return str(compiled), constants, compiled.positiontup or ()


def _parse(given: str, what: str) -> URL:
    try:
        url = make_url(given)
    except ArgumentError as error:
        raise StoreError(f"{what} {given!r} is not a database URL: {_USAGE}") from error
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        return url
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise StoreError(f"{what} {url.render_as_string(hide_password=True)!r} is of an unknown kind: {_USAGE}")


def _engine(url: URL, lock_timeout_s: float) -> Engine:
    # Transactions begin and end by SQL, the same way for both databases. AUTOCOMMIT keeps drivers from beginning their own, which
    # a read would leave open.
    if url.get_backend_name() != "sqlite":
        given = {"connect_timeout": CONNECT_TIMEOUT_S, **_KEEPALIVE}
        options: dict[str, Any] = {name: value for name, value in given.items() if name not in url.query}
        set_up: Callable[[Any, object], None] = partial(_set_up_postgres, lock_timeout_s)
    else:
        options = {"check_same_thread": False, "timeout": lock_timeout_s}
        set_up = partial(_set_up_sqlite, lock_timeout_s)
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool, connect_args=options)
    event.listen(engine, "connect", set_up)
    return engine


def _set_up_sqlite(lock_timeout_s: float, connection: Any, _record: object) -> None:
    _write_ahead(connection, lock_timeout_s)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    # What is deleted is overwritten with zeros, so that a deleted user's words do not stay in the file's free space.
    connection.execute("PRAGMA secure_delete=ON")


def _write_ahead(connection: Any, lock_timeout_s: float) -> None:
    # When several connections open a new file at once, SQLite refuses this without waiting for a lock.
    until_s = time.monotonic() + lock_timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if not is_transient(error) or time.monotonic() > until_s:
                raise
            time.sleep(0.01)
        else:
            return


def _set_up_postgres(lock_timeout_s: float, connection: Any, _record: object) -> None:
    register_arrays(connection)
    name = f"set_config('application_name', {APPLICATION_NAME}, false)"
    connection.execute(f"SELECT set_config('lock_timeout', '{int(lock_timeout_s * 1000)}', false), {name}")


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
