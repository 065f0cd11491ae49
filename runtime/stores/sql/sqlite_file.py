"""The file of a SQLite database: what can be wrong with it before it is opened, and whether it is still the one that was opened.

SQLite goes on with a file that was deleted or replaced: it commits into a file that has no name any more, and all of it is gone
when the process ends. So the file's identity is compared before each use, which takes some microseconds.

The file is never opened here: closing any descriptor of it would give up the locks that SQLite holds in this process.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import URL

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
