"""A SQLite database that goes back to an older copy of itself while it is in use, as PostgreSQL does at some fail-overs."""

from __future__ import annotations

import sqlite3
import weakref
from contextlib import closing
from pathlib import Path


class OlderCopy:
    """A copy of a database file as it is now.

    Args:
        path: the database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._copy = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._copy.close)
        with closing(sqlite3.connect(path)) as source:
            source.backup(self._copy)

    def restore(self) -> None:
        """Put the copy in the place of what the database has become. Connections to it stay open."""
        with closing(sqlite3.connect(self._path, timeout=30)) as target:
            self._copy.backup(target)
