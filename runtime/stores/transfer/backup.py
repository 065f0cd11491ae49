"""Backups of SQLite stores, while an app runs and writes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from actors.errors import StoreError
from runtime.private_files import make_folder, opener
from runtime.stores.sql.database import Database


def back_up(database: Database, target: Path) -> bool:
    """Write the state of a SQLite database at one moment into a new file, which needs no other file beside it.

    Args:
        target: must not be there.

    Returns:
        False, and nothing is written, when the database has no file yet.

    Raises:
        StoreError: the database is not SQLite in a file, or the backup failed.
    """
    path = database.path
    if path is None:
        reason = "is in memory" if database.is_sqlite else f"is PostgreSQL: use pg_dump --format=custom --file={target.name}"
        raise StoreError(f"{database} {reason}")
    if not path.is_file():
        return False
    try:
        with new_file(target) as draft, closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(draft)) as copy:
            # All pages in one step: what other connections write meanwhile is in the copy as a whole or not at all.
            source.backup(copy, pages=-1)
            copy.execute("PRAGMA journal_mode=DELETE")
            (found,) = copy.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise StoreError(f"{database} is damaged, and so is a copy of it: {found}")
    except (sqlite3.Error, OSError) as error:
        raise database.failure(error) from error
    return True


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A draft of a file for this user only, which gets its name when the block ends, and is deleted when the block raises.

    Raises:
        StoreError: the file is there already.
    """
    if path.exists():
        raise StoreError(f"{str(path)!r} is there already: choose another name")
    make_folder(path.parent)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        with open(draft, "x", opener=opener):
            pass
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        try:
            # A rename would replace a file that has come meanwhile.
            os.link(draft, path)
        except FileExistsError:
            raise StoreError(f"{str(path)!r} is there already: choose another name") from None
    finally:
        draft.unlink(missing_ok=True)
