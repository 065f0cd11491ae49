"""The way out of a process: what agents log and print waits here, bounded, until a thread has written and sent it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from actors.interfaces.run_facts import NO_RUN
from runtime.observability.logs.lines import Line

MAX_LINES = 2_000
"""Lines that wait at most; more are dropped and counted. An agent never waits for its log."""

PAUSE_S = 0.02
"""Time between two sendings, in which lines come together. The first line after a rest goes at once."""

logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Where lines go, such as a file or another process. It is called in the outlet's thread, and may block."""

    def put_lines(self, lines: Sequence[Line]) -> None:
        """Take lines. Raises OSError when it cannot."""
        ...


class Outlet:
    """Takes lines from any thread without blocking it, and hands them on in a thread of its own, which the first line starts.

    Attributes:
        is_busy: lines are being handed on.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks
        self._lines: list[Line] = []
        self._dropped = 0
        self._changed = threading.Condition()
        self.is_busy = False
        self._thread: threading.Thread | None = None

    def put_line(self, line: Line) -> None:
        """Take a line, or drop it when too many wait."""
        with self._changed:
            if len(self._lines) >= MAX_LINES:
                self._dropped += 1
                return
            self._lines.append(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="logs", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drain(self, timeout_s: float) -> None:
        """Wait until all lines are handed on, or some time has passed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines and not self.is_busy, timeout_s)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self.is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                self.is_busy = True
                lines, self._lines = self._lines, []
                dropped, self._dropped = self._dropped, 0
            if dropped:
                lines.append(_dropped(dropped))
            for sink in self._sinks:
                try:
                    sink.put_lines(lines)
                except Exception:
                    # Lines are lost where one sink is: a full disk, or a process that has just ended.
                    continue
            time.sleep(PAUSE_S)


def _dropped(number: int) -> Line:
    text = f"{number} lines were dropped here, because more than {MAX_LINES} came at once"
    return Line(NO_RUN, text, "", os.getpid(), time.time(), logger.name, logging.WARNING)


class CallSink:
    """A sink that calls a function with each batch."""

    def __init__(self, function: Callable[[Sequence[Line]], object]) -> None:
        self._function = function

    def put_lines(self, lines: Sequence[Line]) -> None:
        """Call the function."""
        self._function(lines)
