"""What actors log as an exception while a simulation runs."""

from __future__ import annotations

import logging


class LoggedErrors(logging.Handler):
    """Keeps what is logged as an exception: defects that were caught at an actor's border."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._problems.append(f"logged: {self.format(record)}")
