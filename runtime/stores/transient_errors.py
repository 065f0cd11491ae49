"""Which faults of a database pass by themselves, so that trying again may help.

Decided by the codes that the databases give, never by their words. What is wrong with the data or the tables, such as a
violated constraint, does not pass; neither does a missing right to write.
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
"""Primary result codes: locked by another process, no room, a disk or a file that does not answer."""

_POSTGRES_CLASSES = ("08", "40", "53", "57", "58")
"""Classes of SQLSTATE: connection, rolled back for another's sake, no room, told to stop, trouble outside the server."""

_POSTGRES = frozenset({"55P03", "25006"})
"""A lock that was not free in time; a server that only reads, as while another takes its place."""

_OS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ESTALE})


def is_transient(error: BaseException) -> bool:
    """True when the same request may succeed a little later."""
    cause = (error.orig or error) if isinstance(error, DBAPIError) else error
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    if isinstance(cause, sqlite3.Error):
        # The low byte is the primary code; what is above it tells more exactly.
        return (getattr(cause, "sqlite_errorcode", None) or 0) & 0xFF in _SQLITE
    if isinstance(cause, OSError):
        return cause.errno in _OS
    state: str | None = getattr(cause, "sqlstate", None)
    if state is None:
        # The client's own: it could not connect, or lost its connection.
        return isinstance(error, (OperationalError, InterfaceError))
    return state.startswith(_POSTGRES_CLASSES) or state in _POSTGRES
