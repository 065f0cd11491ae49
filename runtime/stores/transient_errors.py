"""Which errors of a database are transient, so that a retry may succeed, and which ones its connection does not survive.

It is decided by error codes, never by messages. Errors of the data or the tables, such as a violated constraint, are not
transient; neither is a missing permission to write.
"""

from __future__ import annotations

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

_SQLITE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
"""Primary result codes: locked by another process, disk full, a disk or a file that cannot be read."""

_POSTGRES_CLASSES = ("08", "40", "53", "57", "58")
"""Classes of SQLSTATE: connection lost, serialization failure or deadlock, no resources, shutdown, error outside the server."""

_POSTGRES = frozenset({"55P03", "25006", "25P03"})
"""SQLSTATEs: a lock timeout; a read-only server, as during a failover; a transaction that stood still for too long."""

_SQLITE_REQUEST = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_RANGE,
        sqlite3.SQLITE_ERROR,
    }
)
"""Primary result codes that are about a request or about other connections: the connection itself is as good as before."""

_POSTGRES_REQUEST = ("22", "23", "40", "42", "55")
"""The same as classes of SQLSTATE: the data, a constraint, serialization, a statement, a lock."""

_OS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ESTALE})


def is_transient(error: BaseException) -> bool:
    """True when the same request may succeed later."""
    cause = (error.orig or error) if isinstance(error, DBAPIError) else error
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    if isinstance(cause, sqlite3.Error):
        # The low byte is the primary code; the other bytes extend it.
        return (getattr(cause, "sqlite_errorcode", None) or 0) & 0xFF in _SQLITE
    if isinstance(cause, OSError):
        return cause.errno in _OS
    state: str | None = getattr(cause, "sqlstate", None)
    if state is None:
        # Raised by the driver itself, which could not connect or lost its connection.
        return isinstance(error, (OperationalError, InterfaceError))
    return state.startswith(_POSTGRES_CLASSES) or state in _POSTGRES


def spoils_connection(error: BaseException) -> bool:
    """True when the connection that raised an error must not be used again.

    That goes for every error but those of the data, of the statement and of locks: a connection that has seen a read-only file or
    server, a full disk or a failed read may keep to what it has seen.
    """
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        # Errors without a code are raised by the driver, for values that it cannot send.
        return code is not None and code & 0xFF not in _SQLITE_REQUEST
    state: str | None = getattr(cause, "sqlstate", None)
    return state is not None and not state.startswith(_POSTGRES_REQUEST)
