"""Takes what a process logs and prints: a handler of the root logger, and streams in place of stdout and stderr.

It waits here, bounded, until a thread has written and sent it.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from actors.errors.user_code import storable
from actors.interfaces.telemetry import NO_RUN, RunFacts, current_run
from runtime.observability.logs.kept import let_events_through
from runtime.observability.logs.lines import ERR, OUT, Line, line_of, mark_records
from runtime.observability.logs.sinks import LogOptions

logger = logging.getLogger(__name__)


MAX_LINES = 2_000
"""Lines that wait at most; more are dropped and counted. An agent never waits for its log."""

PAUSE_S = 0.02
"""Time between two sendings, in which lines come together. The first line after a rest goes at once."""


Sink = Callable[[Sequence[Line]], object]
"""Takes lines, into a file for instance, or to another process. It is called in a thread that it may block."""


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
                    sink(lines)
                except Exception:
                    # Lines are lost where one sink is: a full disk, or a process that has just ended.
                    continue
            time.sleep(PAUSE_S)


def _dropped(number: int) -> Line:
    text = f"{number} lines were dropped here, because more than {MAX_LINES} came at once"
    return Line(NO_RUN, text, "", os.getpid(), time.time(), logger.name, logging.WARNING)


MAX_LINE = 4_000
"""Characters of a printed line; a longer one is cut into several."""

MAX_BEGUN = 256
"""Lines without an end that are kept, one for each thread of a run."""


def start_capture(options: LogOptions, outlet: Outlet) -> Callable[[], None]:
    """Have what this process logs from now on, and what its agents print, go to an outlet. Returns a function that ends it."""
    mark_records()
    logging.root.setLevel(options.level)
    for name, level in options.levels.items():
        logging.getLogger(name).setLevel(level)
    let_events_through()
    handler = OutletHandler(outlet)
    streams = sys.stdout, sys.stderr
    logging.root.addHandler(handler)
    sys.stdout, sys.stderr = RunStream(sys.stdout, OUT, outlet), RunStream(sys.stderr, ERR, outlet)

    def stop() -> None:
        logging.root.removeHandler(handler)
        sys.stdout, sys.stderr = streams

    if hasattr(os, "register_at_fork"):
        # The outlet's thread is not in a process that a tool forks, so what is printed there goes where it went before.
        os.register_at_fork(after_in_child=stop)
    return stop


class OutletHandler(logging.Handler):
    """A handler that puts records into an outlet."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__()
        self._outlet = outlet

    def emit(self, record: logging.LogRecord) -> None:
        """Put a record into the outlet."""
        run = record.__dict__.get("run", NO_RUN)
        self._outlet.put_line(line_of(record, run if isinstance(run, RunFacts) else NO_RUN))


class RunStream(io.TextIOBase):
    """A stream that takes lines which agents print, and passes everything else on to the stream in whose place it is.

    Args:
        stream: the stream that was there.
        kind: "stdout" or "stderr".
        outlet: gets the lines of agents.
    """

    def __init__(self, stream: TextIO, kind: str, outlet: Outlet) -> None:
        self._stream = stream
        self._kind = kind
        self._outlet = outlet
        self._begun: dict[tuple[RunFacts, int], str] = {}

    def write(self, text: str) -> int:
        """Take a text: whole lines of an agent go to the outlet, the rest waits for the end of its line."""
        run = current_run()
        if run is NO_RUN:
            return self._stream.write(text)
        key = run, threading.get_ident()
        *lines, rest = (self._begun.pop(key, "") + text).split("\n")
        for line in lines:
            self._put(run, line)
        while len(rest) > MAX_LINE:
            self._put(run, rest[:MAX_LINE])
            rest = rest[MAX_LINE:]
        if rest:
            self._begun[key] = rest
        if len(self._begun) > MAX_BEGUN:
            # A run that has ended leaves the beginning of a line for good.
            oldest = next(iter(self._begun))
            self._put(oldest[0], self._begun.pop(oldest, ""))
        return len(text)

    def flush(self) -> None:
        """Let go of a line that has no end yet."""
        run = current_run()
        if run is NO_RUN:
            self._stream.flush()
        elif rest := self._begun.pop((run, threading.get_ident()), ""):
            self._put(run, rest)

    def _put(self, run: RunFacts, text: str) -> None:
        self._outlet.put_line(Line(run, storable(text), self._kind, os.getpid(), time.time()))

    def writable(self) -> bool:
        """True."""
        return True

    def isatty(self) -> bool:
        """The answer of the stream that was there."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The descriptor of the stream that was there."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream that was there."""
        return self._stream.encoding

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
