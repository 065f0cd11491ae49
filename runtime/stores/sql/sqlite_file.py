"""The file of a SQLite database: what can be wrong with it before it is opened, whether it is still the one that was opened, and
how long calls wait for its locks.

SQLite goes on with a file that was deleted or replaced: it commits into a file that has no name any more, and all of it is gone
when the process ends. So the file's identity is compared before each use, which takes some microseconds.

The file is never opened here: closing any descriptor of it would give up the locks that SQLite holds in this process.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from sqlalchemy import URL, Connection

from actors.errors import StoreError
from runtime.private_files import make_file, make_folder

_Identity = tuple[int, int]
"""The device and the inode of a file."""

_ELSEWHERE = "name another folder in its URL, or, for the files of all apps, by RAYGROVE_DATA_DIR"
_RESTORE = "stop the app, put its file back or restore a backup, and start the app again"


def file_of(url: URL) -> Path | None:
    """The file of a SQLite URL; None for a database in memory and for URIs of SQLite's own."""
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name == ":memory:" or name.startswith("file:"):
        return None
    return Path(name).absolute()


class SqliteFile:
    """The file of one database, and its write-ahead log beside it.

    Args:
        path: where the file is, or will be.
        store: the store in words, for errors.
    """

    def __init__(self, path: Path, store: str) -> None:
        self.path = path
        self._log = path.with_name(f"{path.name}-wal")
        # What `os.stat` takes without a conversion, since these are looked at with each use.
        self._path_name, self._log_name = str(self.path), str(self._log)
        self._store = store
        self._identity: _Identity | None = None
        self._log_identity: _Identity | None = None

    def prepare(self) -> None:
        """Make the file's folder if it is missing, and forget the file that was opened before.

        Raises:
            StoreError: there is no file that could be opened or made, or its folder is missing and cannot be made.
            OSError: the folder cannot be entered.
        """
        self._identity = self._log_identity = None
        if self.path.is_dir():
            raise StoreError(f"{self._store}: {str(self.path)!r} is a folder: name a file")
        folder = self.path.parent
        if not folder.exists() and not folder.parent.is_dir():
            raise StoreError(
                f"{self._store}: there is no folder {str(folder)!r}, nor {str(folder.parent)!r} to make it in: correct the path, "
                "or make the folder"
            )
        try:
            make_folder(folder)
        except OSError as error:
            raise StoreError(f"{self._store}: its folder cannot be made ({error}): {_ELSEWHERE}") from error
        if self.path.exists():
            if not _may(self.path, os.R_OK):
                raise StoreError(f"{self._store}: this account may not read {str(self.path)!r}")
        elif self._log.exists() and self._log.stat().st_size and not self.path.exists():
            # Looked at once more: another program may have made both meanwhile, the file first.
            raise StoreError(
                f"{self._store}: {str(self.path)!r} is gone, and its write-ahead log {self._log.name!r} is still there: put both "
                "back together, or delete the log as well to begin with an empty store"
            )
        elif not _may(folder, os.W_OK):
            raise StoreError(f"{self._store}: this account may make no file in {str(folder)!r}: {_ELSEWHERE}")

    def make(self) -> None:
        """Make the file if it is missing: only this user may read it. SQLite gives the files beside it the same mode."""
        if not self.path.exists():
            make_file(self.path)

    @property
    def may_be_written(self) -> bool:
        """False for a file that is read-only now: a connection made now stays read-only for good."""
        return _may(self.path, os.W_OK)

    def note_connected(self) -> None:
        """Remember the file to which a connection was made."""
        self._identity = _identity(self._path_name)
        self._log_identity = None

    def check(self) -> None:
        """Raise StoreError when another file, or none, is in the place of the one that was opened."""
        if self._identity is None:
            return
        found = _identity(self._path_name)
        if found != self._identity:
            how = "was deleted" if found is None else "was replaced by another file"
            raise StoreError(f"{self._store}: {str(self.path)!r} {how} while it was in use: {_RESTORE}")
        log = _identity(self._log_name)
        if self._log_identity is None:
            # SQLite makes it with the first transaction of a connection, and keeps it for as long as there is one.
            self._log_identity = log
        elif log != self._log_identity:
            how = "was deleted" if log is None else "was replaced by another file"
            raise StoreError(f"{self._store}: its write-ahead log {str(self._log)!r} {how} while it was in use: {_RESTORE}")

    def forget_log(self) -> None:
        """The connection is closed: SQLite may have removed the log, and the next connection makes a new one."""
        self._log_identity = None


def _may(path: Path, mode: int) -> bool:
    # SQLite opens files as the effective account.
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _identity(path: str) -> _Identity | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


class LockWait:
    """How long one connection after the other waits for a lock that another process has.

    A context manager: in its block nothing waits for a lock, but fails with a transient error.

    Args:
        timeout_s: how long calls wait, and each new connection does.

    Attributes:
        is_connected: there is a connection.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._wanted_s = self._of_connection_s = timeout_s
        self.is_connected = False

    def __enter__(self) -> None:
        self._wanted_s = 0.0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._wanted_s = self._timeout_s

    def note_connected(self, connected: bool) -> None:
        """There is a new connection, or none any more."""
        self.is_connected, self._of_connection_s = connected, self._timeout_s

    def prepare(self, connection: Connection) -> None:
        """Before a call: have the connection wait as long as the call wants to."""
        if self._of_connection_s != self._wanted_s:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={int(self._wanted_s * 1_000)}")
            self._of_connection_s = self._wanted_s
