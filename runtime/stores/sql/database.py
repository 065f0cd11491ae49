"""A database by its URL: one connection that stays open, transactions on it, and reconnecting when it breaks."""

from __future__ import annotations

import logging
import select
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, NullPool, Row, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from actors.errors import RaygroveError, StoreError, StoreUnavailableError
from runtime.stores.sql import statements
from runtime.stores.sql.sqlite_file import SqliteFile, file_of
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

IDLE = 0
"""The status of a connection of libpq that is open, and in no transaction."""

_OF_KEYS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}

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
    def transaction(self) -> Iterator[Connection]:
        """A transaction: committed at the end of the block, rolled back when the block raises.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database could not begin or commit. Nothing was stored, unless the connection
                broke while it was committing.
            StoreError: the file of the database was deleted or replaced while it was in use.
        """
        try:
            if not self._may_write:
                # A connection to a read-only file stays read-only, whatever becomes of the file.
                self._drop_connection()
            connection = self._retried(self._begin)
            yield connection
            statements.execute(connection, "COMMIT")
            if self._file is not None:
                self._file.check()
        except BaseException as error:
            self._roll_back(error)
            raise

    def _begin(self, connection: Connection) -> Connection:
        # IMMEDIATE takes SQLite's write lock at once, and waits for it; a read that becomes a write fails without waiting.
        statements.execute(connection, "BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN")
        return connection

    @contextmanager
    def driver(self) -> Iterator[Any]:
        """The connection to PostgreSQL as psycopg has it, outside of any transaction: each statement is one of its own.

        Statements find their rows by keys: see `plans`.

        Raises:
            sqlalchemy.exc.DBAPIError: psycopg has raised an error in the block.
        """
        if self._connection is not None and _is_cut(self._connection):
            # What is sent after this may change something, and could not be sent again.
            self._drop_connection()
        connection = self._connected(by_keys=True)
        driver: Any = connection.connection.dbapi_connection
        errors: Any = connection.dialect.loaded_dbapi
        try:
            yield driver
        except errors.Error as error:
            raised = DBAPIError.instance(
                None, None, error, errors.Error, connection_invalidated=driver.broken, dialect=connection.dialect
            )
            if spoils_connection(raised):
                self._drop_connection()
            raise raised from error
        except BaseException:
            if driver.info.transaction_status != IDLE:
                self._drop_connection()
            raise

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

    def tuples(self, query: statements.Query, parameters: dict[str, Any], *, by_keys: bool = False) -> Tuples:
        """The rows that a query finds as its driver has them, outside of any transaction: where SQLAlchemy's rows take too long.

        No column may have a type that SQLAlchemy converts.

        Args:
            by_keys: it finds them by keys: see `plans`.

        Raises:
            StoreError: the database failed.
        """

        def read(connection: Connection) -> Tuples:
            return statements.tuples(connection, query, parameters)

        with self.store_errors():
            return self._retried(read, by_keys=by_keys)

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
        except DBAPIError as error:
            if not spoils_connection(error) or self._is_in_memory:
                raise
        self._drop_connection()
        return call(self._connected(by_keys=by_keys))

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


def _is_cut(connection: Connection) -> bool:
    """Whether PostgreSQL's server has said anything without being asked: it does so when it closes a connection."""
    driver: Any = connection.connection.dbapi_connection
    if driver.closed:
        return True
    unasked = select.poll()
    unasked.register(driver.fileno(), select.POLLIN)
    return bool(unasked.poll(0))


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
        # psycopg is an extra.
        from runtime.stores.sql.postgres.arrays import register_arrays

        set_up: Callable[[Any, object], None] = partial(_set_up_postgres, lock_timeout_s, register_arrays)
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


def _set_up_postgres(lock_timeout_s: float, register: Callable[[Any], None], connection: Any, _record: object) -> None:
    register(connection)
    name = f"set_config('application_name', {APPLICATION_NAME}, false)"
    connection.execute(f"SELECT set_config('lock_timeout', '{int(lock_timeout_s * 1000)}', false), {name}")
