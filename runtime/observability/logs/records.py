"""Log records that name the run in which they were made: `agent`, `user_id`, `session_id` and `invocation_id`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.interfaces.run_facts import RunFacts, current_run

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
