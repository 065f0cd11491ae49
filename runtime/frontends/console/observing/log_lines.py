"""Lines of agents' logs for a terminal: those that are wanted, in the order of their times."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from actors.errors import RequestError
from actors.errors.hints import did_you_mean
from runtime.frontends.console.apps.terminal import Terminal
from runtime.observability.logs.lines import by_time, formatter

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass(frozen=True)
class Wanted:
    """Which records are printed.

    Attributes:
        level: from this level on.
        after_s: from this time on, in seconds since the epoch.
        agent, session_id, user_id: only of these; None: of all.
    """

    level: int = 0
    after_s: float = 0.0
    agent: str | None = None
    session_id: str | None = None
    user_id: str | None = None

    def has(self, record: logging.LogRecord) -> bool:
        """True for a record that is wanted."""
        if record.levelno < self.level or record.created < self.after_s:
            return False
        names = {"agent": self.agent, "session_id": self.session_id, "user_id": self.user_id}
        return all(value is None or getattr(record, name, "") == value for name, value in names.items())


class LogLines:
    """Takes records from any thread, and prints them.

    Args:
        wanted: the others are dropped.
        format: of lines: see `Settings.log_format`.
    """

    def __init__(self, wanted: Wanted, format: str) -> None:
        self._wanted = wanted
        self._formatter = formatter(format)
        self._records: list[logging.LogRecord] = []
        self._lock = threading.Lock()
        self._terminal = Terminal()

    def add(self, record: logging.LogRecord) -> None:
        """Take a record."""
        if self._wanted.has(record):
            with self._lock:
                self._records.append(record)

    def print_all(self) -> None:
        """Print what has come, the oldest first."""
        with self._lock:
            records, self._records = self._records, []
        for record in by_time(records, lambda each: each.created, _source):
            self._terminal.write(self._formatter.format(record))


def _source(record: logging.LogRecord) -> tuple[int | None, str]:
    """The process and the agent: processes of two machines may have the same number."""
    return record.process, getattr(record, "agent", "")


def level_number(name: str) -> int:
    """The number of a level. Raises RequestError for a name that is none."""
    if name.upper() not in LEVELS:
        hint = did_you_mean(name.upper(), LEVELS) or f" Levels: {', '.join(LEVELS)}"
        raise RequestError(f"there is no level {name!r}.{hint}")
    return logging.getLevelNamesMapping()[name.upper()]
