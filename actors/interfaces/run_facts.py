"""Which agent's code runs here, for which turn: what log records and prints are marked with.

A context variable holds it, so that tasks and threads that user code is run in know it as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class RunFacts(NamedTuple):
    """The run of an agent, as log records name it. `trace_id`: of the turn's trace; "" without telemetry."""

    agent: str = ""
    user_id: str = ""
    session_id: str = ""
    invocation_id: str = ""
    app_name: str = ""
    trace_id: str = ""


NO_RUN = RunFacts()
"""Outside of all runs."""

_current: ContextVar[RunFacts] = ContextVar("raygrove_run", default=NO_RUN)

current_run = _current.get
"""Return the run that this code belongs to, or NO_RUN."""


def enter_run(facts: RunFacts) -> None:
    """Mark the running task, and all tasks and threads that it starts, as part of a run."""
    _current.set(facts)


@contextmanager
def in_run(facts: RunFacts) -> Iterator[None]:
    """Mark what runs inside of the block as part of a run."""
    token = _current.set(facts)
    try:
        yield
    finally:
        _current.reset(token)
