"""What agents log, and where its lines go: into files, and to the loggers and the terminal of a program."""

from __future__ import annotations

import contextvars
import logging
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from runtime.observability.logs.lines import ERR, JSON, Line, formatter, printed_text, record_of
from runtime.private_files import make_folder, opener
from runtime.settings import Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LogOptions:
    """What a deployment's processes log.

    Attributes:
        app_name: begins the names of files and the lines of prints.
        level: of the root logger.
        levels: of loggers that have one of their own, by name.
        format: of lines in files.
        folder: of files; None: Ray's folder of logs.
        level_is_programs: the levels are those of the program that started the deployment, and no setting's.
    """

    app_name: str
    level: int
    levels: Mapping[str, int]
    format: str
    folder: str | None
    level_is_programs: bool = True


def log_options(app_name: str, settings: Settings) -> LogOptions:
    """The options of the settings; without `log_level`, the levels that loggers of this process have now."""
    folder = str(settings.log_dir.absolute()) if settings.log_dir is not None else None
    if settings.log_level is not None:
        return LogOptions(
            app_name, logging.getLevelNamesMapping()[settings.log_level], {}, settings.log_format, folder, level_is_programs=False
        )
    levels = {
        name: logger.level
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and logger.level and name.partition(".")[0] != "ray"
    }
    return LogOptions(app_name, logging.root.level, levels, settings.log_format, folder)


MAX_BYTES = 10 * 1024 * 1024
"""A file that has grown to this size is renamed to `….log.1`, in place of the one before."""

MAX_OPEN = 32
"""Files that one process keeps open."""


class LogFiles:
    """Writes lines into a file for each agent in this process, `<app>.<agent>.<pid>.log`.

    Args:
        options: names, form and folder.
        role: names the file of what belongs to no agent.
    """

    def __init__(self, options: LogOptions, folder: str, role: str) -> None:
        self._app_name = options.app_name
        self._formatter = formatter(options.format)
        self._is_json = options.format == JSON
        self._folder = folder
        self._role = role
        self._open: OrderedDict[str, TextIO] = OrderedDict()

    def path(self, agent: str) -> str:
        """The file of an agent, which may have nothing to say yet."""
        name = quote(agent or self._role, safe=" @+,=")[:100]
        return os.path.join(self._folder, f"{self._app_name}.{name}.{os.getpid()}.log")

    def put_lines(self, lines: Sequence[Line]) -> None:
        """Write lines. Raises OSError."""
        for line in lines:
            file = self._file(line.run.agent)
            file.write(f"{self._text(line)}\n")
            if file.tell() > MAX_BYTES:
                self._rotate(line.run.agent)
        for file in self._open.values():
            file.flush()

    def close(self) -> None:
        """Close the files; they are opened again for more lines."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _text(self, line: Line) -> str:
        return line.text if line.printed and not self._is_json else self._formatter.format(record_of(line))

    def _file(self, agent: str) -> TextIO:
        file = self._open.get(agent)
        if file is None:
            make_folder(Path(self._folder))
            while len(self._open) >= MAX_OPEN:
                self._open.popitem(last=False)[1].close()
            path = self.path(agent)
            file = self._open[agent] = open(path, "a", encoding="utf-8", errors="backslashreplace", opener=opener)  # noqa: SIM115
        self._open.move_to_end(agent)
        return file

    def _rotate(self, agent: str) -> None:
        self._open.pop(agent).close()
        path = self.path(agent)
        os.replace(path, f"{path}.1")


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
