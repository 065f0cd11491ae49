"""The form in which records and prints of agents travel, and what they become in a program."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import msgspec

from actors.errors.user_code import error_text, storable
from actors.interfaces.run_facts import RunFacts
from actors.messages import typed
from runtime.observability.logs.records import RunRecord

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


_lines = typed.decoder(list[Line])

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
