"""Events of a deployment among what a process logs: told apart by their attribute, and the newest of them kept."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import get_args

import msgspec

from actors.interfaces.deployment_events import KIND, LOGGER, EventKind
from actors.interfaces.run_facts import NO_RUN
from actors.messages.shown import Shown
from runtime.observability.logs.lines import Line, line_of
from runtime.observability.logs.times import by_time
from runtime.observability.logs.unseen import UnseenHandler

EVENT_KINDS: tuple[str, ...] = get_args(EventKind)
"""All of them."""

MAX_KEPT = 1_000
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
        self._events: deque[DeploymentEvent] = deque(maxlen=MAX_KEPT)
        self._lock = threading.Lock()

    def add_lines(self, lines: Iterable[Line]) -> None:
        """Add the events among some lines."""
        with self._lock:
            self._events.extend(event for line in lines if (event := event_of(line)) is not None)

    def add(self, events: Iterable[DeploymentEvent]) -> None:
        """Add events that another process has kept, in their order."""
        with self._lock:
            told = [(0, each) for each in self._events] + [(1, each) for each in events]
            self._events = deque((each for _, each in by_time(told, lambda one: one[1].at_s, lambda one: one[0])), MAX_KEPT)

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
