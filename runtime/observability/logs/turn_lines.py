"""The lines of a turn among those that a deployment keeps."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable

from actors.interfaces.run_facts import NO_RUN, RunFacts
from actors.messages.session import TurnKey
from runtime.observability.logs.lines import Line, line_of
from runtime.observability.logs.log_line import LogLine
from runtime.observability.logs.times import by_time
from runtime.observability.logs.unseen import UnseenHandler

MAX_KEPT = 2_000
"""Lines that a program keeps whose agents run in itself."""


def lines_of(lines: Iterable[Line], turn: TurnKey) -> list[LogLine]:
    """The lines of a turn, in the order of their times."""
    key, invocation_id = turn
    wanted = (key.user, key.session, invocation_id)
    found = [line for line in lines if (line.run.user_id, line.run.session_id, line.run.invocation_id) == wanted]
    return [_line(line) for line in by_time(found, lambda line: line.created_s, lambda line: (line.pid, line.run.agent))]


def _line(line: Line) -> LogLine:
    return LogLine(
        at_s=line.created_s,
        agent=line.run.agent,
        level=logging.getLevelName(logging.INFO if line.printed else line.level),
        logger=line.printed or line.name,
        text=line.text,
        details=line.details,
        pid=line.pid,
    )


class LineRing(UnseenHandler):
    """A handler that keeps the newest records which agents of an app make in this process."""

    def __init__(self, app_name: str) -> None:
        super().__init__()
        self._app_name = app_name
        self._lines: deque[Line] = deque(maxlen=MAX_KEPT)
        self._keeping = threading.Lock()

    def keep(self, record: logging.LogRecord) -> None:
        """Keep a record of the app."""
        run = record.__dict__.get("run", NO_RUN)
        if isinstance(run, RunFacts) and run.app_name == self._app_name:
            line = line_of(record, run)
            with self._keeping:
                self._lines.append(line)

    def lines_of(self, turn: TurnKey) -> list[LogLine]:
        """The lines of a turn that are kept, the oldest first."""
        with self._keeping:
            kept = list(self._lines)
        return lines_of(kept, turn)
