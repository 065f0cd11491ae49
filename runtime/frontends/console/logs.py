"""`raygrove logs`: what agents log and print, from all nodes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from actors.errors import RequestError
from actors.errors.hints import did_you_mean
from runtime.frontends.console import options, runtimes
from runtime.frontends.console.terminal import Terminal
from runtime.observability.logs.lines import by_time, formatter

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime


Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")]
Agent = Annotated[str | None, typer.Option(help="Only of this agent.")]
Session = Annotated[str | None, typer.Option(help="Only of this session.")]
User = Annotated[str | None, typer.Option(help="Only of this user's sessions.")]
Since = Annotated[str | None, typer.Option(metavar="AGE", help="Only of the last 90d, 12h, 30m or 10s.")]
Level = Annotated[str, typer.Option(help="From which level on: DEBUG, INFO, WARNING, ERROR or CRITICAL; prints are INFO.")]

TICK_S = 0.2
"""How often lines are printed. Those of several processes that come within this time are put in order."""

LOOK_S = 2.0
"""How often is looked whether the deployment is still there."""


def logs(
    name: options.Name,
    follow: Follow = False,
    agent: Agent = None,
    session: Session = None,
    user: User = None,
    since: Since = None,
    level: Level = "DEBUG",
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Print what agents have logged and printed on all nodes, as far as the deployment keeps it; with -f what comes as well.

    With -f it goes on over losses, updates and upgrades, and ends when the deployment has stopped, with the exit code 1.
    """
    import time

    from runtime.observability.logs.lines import JSON
    from runtime.settings import Settings

    after_s = time.time() - options.parsed_age(since) if since is not None else 0.0
    wanted = Wanted(level_number(level), after_s, agent=agent, session_id=session, user_id=user)
    lines = LogLines(wanted, JSON if json else Settings().log_format)
    try:
        with runtimes.joined(name, address, lines.add) as rt:
            # Those that are kept are read at the latest when the deployment is left.
            if follow:
                for _ in _ticks(rt):
                    lines.print_all()
    except KeyboardInterrupt:
        pass
    finally:
        lines.print_all()


def _ticks(rt: Runtime) -> Iterator[None]:
    """Moments at which to print, for as long as the deployment is there. Raises DeploymentNotFoundError when it has stopped."""
    import threading
    import time

    from actors.errors import DeploymentNotFoundError, RaygroveError

    ended: list[DeploymentNotFoundError] = []

    def look() -> None:
        # In a thread: while the store is away a reply takes long.
        while not ended:
            time.sleep(LOOK_S)
            try:
                rt.turns.counts()
            except DeploymentNotFoundError as error:
                ended.append(error)
            except RaygroveError:
                # It is upgraded, a process of it is being started again, or its store is away.
                continue

    threading.Thread(target=look, name="presence", daemon=True).start()
    while not ended:
        time.sleep(TICK_S)
        yield
    raise ended[0]


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
