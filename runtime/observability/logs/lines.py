"""Lines of agents' logs: records and prints, how they travel, and what they become in a program or a file."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from actors.errors.user_code import error_text, storable
from actors.interfaces.telemetry import RunFacts, current_run
from actors.messages import codec

_FIELDS = frozenset(RunFacts._fields)


class RunRecord(logging.LogRecord):
    """A record with the names of its run as attributes, "" outside of runs.

    They become entries of its `__dict__`, from where formatters take them, when its message is made: until then a caller may give
    attributes of the same names with `extra`, which Python refuses for entries that are there.
    """

    run: RunFacts

    def __getattr__(self, name: str) -> str:
        if name in _FIELDS:
            return str(getattr(self.run, name))
        raise AttributeError(name)

    def getMessage(self) -> str:
        """The message; now the record has all its attributes."""
        for name, value in self.run._asdict().items():
            self.__dict__.setdefault(name, value)
        return super().getMessage()


def mark_records() -> None:
    """Have all records of this process name their runs. A second call changes nothing.

    Records of a class that another library has put in place stay as they are.
    """
    made = logging.getLogRecordFactory()
    if not getattr(made, "marks_runs", False):
        logging.setLogRecordFactory(_marking(made))


def _marking(made: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
    def make(*args: object, **options: object) -> logging.LogRecord:
        record = made(*args, **options)
        if type(record) is logging.LogRecord:
            record.__class__ = RunRecord
            record.__dict__["run"] = current_run()
        return record

    make.marks_runs = True  # type: ignore[attr-defined]
    return make


MAX_EXTRA = 16
"""Attributes of its own that a record keeps on its way."""

OUT, ERR = "stdout", "stderr"
"""The kinds of lines that were printed."""

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"run", "message", "asctime", "taskName", *RunFacts._fields}


class Line(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """A log record, or a printed line.

    Attributes:
        run: the run that it belongs to.
        text: the message, or what was printed.
        printed: "stdout" or "stderr" for a printed line, "" for a record.
        details: the traceback, or the stack.
        extra: attributes that the caller has given the record, as far as they are texts and numbers.
    """

    run: RunFacts
    text: str
    printed: str
    pid: int
    created_s: float
    name: str = ""
    level: int = 0
    details: str = ""
    path: str = ""
    line_number: int = 0
    function: str = ""
    thread: str = ""
    extra: dict[str, str | float | bool | None] = {}


_lines = codec.decoder(list[Line])

encode_lines = msgspec.msgpack.Encoder().encode
decode_lines = _lines.decode


def line_of(record: logging.LogRecord, run: RunFacts) -> Line:
    """A record in the form in which it travels. It does not raise: users' classes in messages may."""
    try:
        text = storable(record.getMessage())
    except BaseException as error:
        text = storable(f"{record.msg!s} (its arguments do not fit: {error_text(error)})")
    details = record.exc_text or ""
    if not details and record.exc_info and record.exc_info[1] is not None:
        details = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
    if record.stack_info:
        details = f"{details}\n{record.stack_info}".strip()
    return Line(
        run=run,
        text=text,
        printed="",
        pid=record.process or 0,
        created_s=record.created,
        name=record.name,
        level=record.levelno,
        details=storable(details),
        path=record.pathname,
        line_number=record.lineno,
        function=record.funcName or "",
        thread=record.threadName or "",
        extra=_extra(record),
    )


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    given = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
    plain = {name: value for name, value in given.items() if isinstance(value, str | int | float | bool | None)}
    kept = list(plain.items())[:MAX_EXTRA]
    return {name: storable(value) if isinstance(value, str) else value for name, value in kept if _fits(value)}


def _fits(value: object) -> bool:
    return not isinstance(value, int) or abs(value) < 2**63


def record_of(line: Line) -> logging.LogRecord:
    """The record, as a program's handlers get it; a printed line is one of a logger `stdout` or `stderr`."""
    name, level = (line.printed, logging.INFO) if line.printed else (line.name, line.level)
    record = RunRecord(name, level, line.path, line.line_number, line.text, (), None, line.function)
    record.exc_text = line.details or None
    record.created, record.process, record.threadName = line.created_s, line.pid, line.thread
    record.msecs = (line.created_s - int(line.created_s)) * 1000
    record.__dict__["run"] = line.run
    record.__dict__.update({**line.extra, **line.run._asdict()})
    return record


def printed_text(line: Line, app_name: str) -> str:
    """A printed line, as a terminal shows it: `app.agent: text`."""
    return f"{app_name}.{line.run.agent}: {line.text}"


JSON = "json"
"""The format that makes a JSON object of each line."""

_TIME = "%Y-%m-%dT%H:%M:%S"


def formatter(format: str) -> logging.Formatter:
    """The formatter of a format: `json`, or one of `logging`, which may name the facts of a run. Raises ValueError."""
    if format == JSON:
        return JsonFormatter()
    return logging.Formatter(format, defaults=dict.fromkeys(RunFacts._fields, ""))


class JsonFormatter(logging.Formatter):
    """Makes a JSON object of a record: time, level, logger, message, the names of its run, and what its caller has added."""

    def format(self, record: logging.LogRecord) -> str:
        """The object, in one line."""
        message = record.getMessage()
        run = {name: value for name in RunFacts._fields if (value := record.__dict__.get(name, ""))}
        added = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        details = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        told = {
            **added,
            "time": f"{self.formatTime(record, _TIME)}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": message,
            "pid": record.process,
            **run,
            **({"traceback": details} if details else {}),
        }
        return msgspec.json.encode(told, enc_hook=str).decode()

    @staticmethod
    def converter(seconds: float | None) -> time.struct_time:
        """The time in UTC."""
        return time.gmtime(seconds)


T = TypeVar("T")


def by_time(made: Iterable[T], at_s: Callable[[T], float], source: Callable[[T], Hashable]) -> Sequence[T]:
    """Put together what several processes have made, by its times.

    What one process has made stays in its order: where its clock was set back, what came after stands at the time before that.

    Args:
        made: of each process in the order in which it was made.
        at_s: tells when one was made, in seconds since the epoch.
        source: tells which process has made it.
    """
    latest_s: dict[Hashable, float] = {}
    placed = []
    for each in made:
        process = source(each)
        latest_s[process] = max(at_s(each), latest_s.get(process, 0.0))
        placed.append((latest_s[process], each))
    return [each for _, each in sorted(placed, key=lambda place: place[0])]
