"""What is kept of a deployment's logs for programs that ask: events of the deployment, and lines of a turn."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

import msgspec

from actors.interfaces.telemetry import KIND, LOGGER, NO_RUN, EventKind, RunFacts
from actors.messages.session import TurnKey
from actors.messages.shown import Shown
from runtime.observability.logs.lines import Line, by_time, line_of


class UnseenHandler(logging.Handler):
    """A handler that a program has not asked for.

    Python prints warnings and errors by `logging.lastResort` where no logger on a record's way has a handler. Where all of them
    are of this class, the first one prints in the same way.
    """

    @abstractmethod
    def keep(self, record: logging.LogRecord) -> None:
        """Take a record."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record, and print it if the program has no handler that does."""
        self.keep(record)
        handlers = list(_handlers(logging.getLogger(record.name)))
        if handlers[:1] == [self] and all(isinstance(each, UnseenHandler) for each in handlers):
            last = logging.lastResort
            if last is not None and record.levelno >= last.level:
                last.handle(record)


def _handlers(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    """The handlers on the way of a record of this logger, in their order."""
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


EVENT_KINDS: tuple[str, ...] = get_args(EventKind)
"""All of them."""

MAX_EVENTS = 1_000
"""Events that each Session actor's and Runner's process keeps."""


class DeploymentEvent(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Something that has happened to a deployment.

    Attributes:
        at_s: when, in seconds since the epoch.
        kind: see EventKind.
        text: what, in a sentence.
        pid: the process that has noticed it.
    """

    at_s: float
    kind: str
    text: str
    pid: int = 0


def event_of(line: Line) -> DeploymentEvent | None:
    """The event that a line tells; None for any other line."""
    kind = line.extra.get(KIND)
    return DeploymentEvent(at_s=line.created_s, kind=str(kind), text=line.text, pid=line.pid) if kind is not None else None


def let_events_through() -> None:
    """Have this process make the records of events, whatever the levels of its loggers are."""
    logging.getLogger(LOGGER).setLevel(logging.INFO)


def without_quiet_events(lines: Iterable[Line], level: int) -> list[Line]:
    """The lines for logs: without events of a level that the logs leave out."""
    return [line for line in lines if line.level >= level or KIND not in line.extra]


class EventRing:
    """Keeps the newest events. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._events: deque[DeploymentEvent] = deque(maxlen=MAX_EVENTS)
        self._lock = threading.Lock()

    def add_lines(self, lines: Iterable[Line]) -> None:
        """Add the events among some lines."""
        with self._lock:
            self._events.extend(event for line in lines if (event := event_of(line)) is not None)

    def add(self, events: Iterable[DeploymentEvent]) -> None:
        """Add events that another process has kept, in their order."""
        with self._lock:
            told = [(0, each) for each in self._events] + [(1, each) for each in events]
            self._events = deque((each for _, each in by_time(told, lambda one: one[1].at_s, lambda one: one[0])), MAX_EVENTS)

    def all(self) -> Sequence[DeploymentEvent]:
        """The events that are kept, in the order in which they came."""
        with self._lock:
            return list(self._events)


class RingHandler(UnseenHandler):
    """A handler that puts the events of this process into a ring."""

    def __init__(self, ring: EventRing) -> None:
        super().__init__()
        self._ring = ring

    def keep(self, record: logging.LogRecord) -> None:
        """Put a record into the ring."""
        self._ring.add_lines([line_of(record, NO_RUN)])


class LogLine(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What an agent has logged or printed.

    Attributes:
        at_s: when, in seconds since the epoch.
        level: the name of the level; prints are INFO.
        logger: the name of the logger; "stdout" or "stderr" for what was printed.
        text: the message, or what was printed.
        details: the traceback, or the stack; "" without one.
    """

    at_s: float
    agent: str
    level: str
    logger: str
    text: str
    details: str = ""
    pid: int = 0


MAX_LINES = 2_000
"""Lines that a program keeps whose agents run in itself."""


def lines_of(lines: Iterable[Line], turn: TurnKey) -> list[LogLine]:
    """The lines of a turn, in the order of their times."""
    key, invocation_id = turn
    wanted = (key.user, key.session, invocation_id)
    found = [line for line in lines if (line.run.user_id, line.run.session_id, line.run.invocation_id) == wanted]
    return [_line(line) for line in by_time(found, lambda line: line.created_s, lambda line: (line.pid, line.run.agent))]


def _line(line: Line) -> LogLine:
    return LogLine(
        at_s=line.created_s,
        agent=line.run.agent,
        level=logging.getLevelName(logging.INFO if line.printed else line.level),
        logger=line.printed or line.name,
        text=line.text,
        details=line.details,
        pid=line.pid,
    )


class LineRing(UnseenHandler):
    """A handler that keeps the newest records which agents of an app make in this process."""

    def __init__(self, app_name: str) -> None:
        super().__init__()
        self._app_name = app_name
        self._lines: deque[Line] = deque(maxlen=MAX_LINES)
        self._keeping = threading.Lock()

    def keep(self, record: logging.LogRecord) -> None:
        """Keep a record of the app."""
        run = record.__dict__.get("run", NO_RUN)
        if isinstance(run, RunFacts) and run.app_name == self._app_name:
            line = line_of(record, run)
            with self._keeping:
                self._lines.append(line)

    def lines_of(self, turn: TurnKey) -> list[LogLine]:
        """The lines of a turn that are kept, the oldest first."""
        with self._keeping:
            kept = list(self._lines)
        return lines_of(kept, turn)
