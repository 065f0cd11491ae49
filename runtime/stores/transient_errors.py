"""Which errors of a database are transient, so that a retry may succeed.

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

_POSTGRES = frozenset({"55P03", "25006"})
"""SQLSTATEs: a lock timeout; a read-only server, as during a failover."""

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
