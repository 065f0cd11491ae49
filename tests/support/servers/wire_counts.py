"""Counts what stores say to PostgreSQL, as libpq notes it, and what they have SQLite do."""

from __future__ import annotations

import ctypes
import itertools
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import psycopg
from sqlalchemy import Engine, event


class WireCounts:
    """Counts of all connections that are made while it listens.

    Args:
        folder: for the notes, a file for each connection.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notes: list[TextIO] = []
        self._numbers = itertools.count()
        self._statements = 0

    def note(self, connection: Any, _record: object) -> None:
        """Take notes of a new connection."""
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(self._count)
            return
        # Stores connect in threads of their own.
        notes = (self._folder / f"wire-{next(self._numbers)}").open("w+")
        self._notes.append(notes)
        assert isinstance(connection, psycopg.Connection)
        connection.pgconn.trace(notes.fileno())
        connection.pgconn.set_trace_flags(psycopg.pq.Trace.SUPPRESS_TIMESTAMPS)

    def _count(self, statement: str) -> None:
        # A pragma sets the connection up, and belongs to no commit.
        self._statements += not statement.startswith("PRAGMA")

    def close(self) -> None:
        """Take no more notes. The connections have to be closed."""
        ctypes.CDLL(None).fflush(None)
        for notes in self._notes:
            notes.close()

    @property
    def counts(self) -> Counter[str]:
        """`statements` so far; on PostgreSQL `round_trips` as well, and `plans` of statements that the server had to make."""
        ctypes.CDLL(None).fflush(None)
        found = Counter(statements=self._statements)
        for notes in self._notes:
            notes.seek(0)
            before = "B"
            for line in notes:
                sender, _, kind, *_ = [*line.rstrip("\n").split("\t"), "", ""]
                if sender not in ("F", "B"):
                    # The rest of a statement of several lines.
                    continue
                found["round_trips"] += (before, sender) == ("F", "B")
                found["statements"] += sender == "F" and kind in ("Execute", "Query")
                found["plans"] += sender == "F" and kind == "Parse"
                before = sender
        return found


@contextmanager
def counted(folder: Path) -> Iterator[WireCounts]:
    """Count what all stores say that connect within the block."""
    counts = WireCounts(folder)
    event.listen(Engine, "connect", counts.note)
    try:
        yield counts
    finally:
        event.remove(Engine, "connect", counts.note)
        counts.close()
