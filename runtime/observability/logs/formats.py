"""How a line of an agent's log is written: by a format of `logging`, or as JSON."""

from __future__ import annotations

import logging
import time

import msgspec

from actors.interfaces.run_facts import RunFacts

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


_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"run", "message", "asctime", "taskName", *RunFacts._fields}
