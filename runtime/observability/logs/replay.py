"""What a program does with lines of agents: records go to its loggers, prints to its terminal."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from runtime.observability.logs.lines import ERR, Line, formatter, printed_text, record_of

logger = logging.getLogger(__name__)


TakeRecord = Callable[[logging.LogRecord], object]
"""A function of a program that takes what agents log and print."""


class RecordSink:
    """Hands lines to a function, as records: a printed line is one of a logger `stdout` or `stderr`. Calls come one by one.

    Args:
        function: what it raises is logged here.
    """

    def __init__(self, function: TakeRecord) -> None:
        self._function = function
        self._lock = threading.Lock()

    def put_lines(self, lines: Sequence[Line]) -> None:
        """Take lines, in the order in which their process made them."""
        with self._lock:
            for line in lines:
                try:
                    self._function(record_of(line))
                except Exception:
                    # The function is of the program, and may raise anything: the lines after this one are to arrive.
                    logger.exception("the function that takes the log of a deployment has failed")


class Replay:
    """Hands lines to the program's `logging` and prints.

    Args:
        format: of records in a program that has not configured `logging`.
        filters: a record has to pass the level of its logger here; else its level was decided by a setting, and it goes to the
            handlers in any case.
    """

    def __init__(self, app_name: str, format: str, *, filters: bool) -> None:
        self._app_name = app_name
        self._filters = filters
        self._formatter = formatter(format)

    def put_lines(self, lines: Sequence[Line]) -> None:
        """Take lines, in the order in which their process made them."""
        # The kernel of a notebook shows a line with the cell in whose context it is written. The caller's is that of the cell
        # that started the Runtime, which has ended; without one it is the cell that runs now.
        contextvars.Context().run(self._put, lines)

    def _put(self, lines: Sequence[Line]) -> None:
        for line in lines:
            if line.printed:
                _print(printed_text(line, self._app_name), line.printed)
                continue
            logger = logging.getLogger(line.name)
            if not self._filters or logger.isEnabledFor(line.level):
                self._handle(logger, line)

    def _handle(self, logger: logging.Logger, line: Line) -> None:
        record: Any = record_of(line)
        if logger.hasHandlers():
            logger.handle(record)
        elif line.level >= logging.WARNING or not self._filters:
            # Where a program has not configured logging, Python prints nothing but the messages of warnings and errors.
            _print(self._formatter.format(record), ERR)


def _print(text: str, kind: str) -> None:
    stream = sys.stderr if kind == ERR else sys.stdout
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except (OSError, ValueError):
        # The terminal is gone, or the program has closed the stream.
        return
