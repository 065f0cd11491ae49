"""Figures and steps of the inside of Session actors and Runners, for tests of what these do.

A core that is made in another way has other ones: then this file changes, and no test of behaviour. Tests of the inside itself
are in tests/unit/inside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest

from actors import RunConfig
from actors.agent import views
from actors.interfaces.stores import TurnRow
from actors.layers import holds, sharing
from actors.layers.listing import service as listing
from actors.layers.recording import service as recording
from actors.layers.retention import service as retention
from actors.layers.spending import service as spending
from actors.layers.spending import stored_usage
from actors.runner import admission, invoker
from actors.runner.turns import TurnTasks
from actors.session import subscriptions
from actors.session.actor import SessionActor
from actors.session.log import logs, reader, session_log
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import SessionTurn
from actors.session.log.queries import LogQueries
from actors.session.store import access
from actors.session.store.access import StoreAccess
from actors.session.store.store_thread import Job, Worker

FIRST_S, EACH_S = recording.FIRST_S, recording.EACH_S
FORGET_S = subscriptions.FORGET_S
FRESH_S, IDLE_S = logs.FRESH_S, logs.IDLE_S
HOLD_S = holds.HOLD_S
KEPT = retention.KEPT
MANY_CALLS = invoker.MANY_CALLS
PAGE, PAGE_BYTES = reader.PAGE, reader.PAGE_BYTES
STOP_S = invoker.STOP_S
TAIL, TAIL_BYTES = session_log.TAIL, session_log.TAIL_BYTES

_FIGURES = {
    "archiving": retention,
    "gate": admission,
    "ends": access,
    "leases": sharing,
    "lists": listing,
    "model_calls": invoker,
    "subscriptions": subscriptions,
    "pruning": retention,
}
_STEPS: dict[str, tuple[type[Any], str]] = {
    "ask the store's thread": (Worker, "begin_job"),
    "commit a change of a log": (SessionLogs, "write"),
    "launch a turn": (TurnTasks, "launch"),
    "read a log for an agent": (LogQueries, "fetch"),
    "read a part of a log": (LogQueries, "read_log"),
    "read the store": (StoreAccess, "read"),
}
_CLOCKS = {"budgets": (stored_usage, spending), "records": (recording,)}


def change(monkeypatch: pytest.MonkeyPatch, of: str, **figures: float) -> None:
    """Have figures be others: `change(monkeypatch, "archiving", KEPT=1)`."""
    for name, value in figures.items():
        monkeypatch.setattr(_FIGURES[of], name, value)


@contextmanager
def short_memory() -> Iterator[None]:
    """In the block a log is soon longer than what is kept of it in memory, than one page, and than what agents compile alone."""
    with ExitStack() as patches:
        for module, figure, value in ((session_log, "TAIL", 5), (reader, "PAGE", 7), (views, "MIN_EVENTS", 5)):
            patches.enter_context(mock.patch.object(module, figure, value))
        yield


def around(monkeypatch: pytest.MonkeyPatch, step: str, wrapper: Callable[..., Any]) -> None:
    """Have a step done by `wrapper`, which gets the step as it was before and the step's arguments."""
    home, name = _STEPS[step]
    before = getattr(home, name)
    monkeypatch.setattr(home, name, lambda *args, **options: wrapper(before, *args, **options))


def set_clock(monkeypatch: pytest.MonkeyPatch, of: str, now_s: float) -> None:
    """Have it be another time for the days of budgets, or the age of records."""
    for module in _CLOCKS[of]:
        monkeypatch.setattr(module, "now_s", lambda: now_s)


def opened(row: TurnRow) -> tuple[Mapping[str, Any], RunConfig]:
    """The values of `temp:` keys and the options of a turn, as a Session actor reads them from its record."""
    turn = SessionTurn.of(row, ())
    return turn.temp, turn.config


def deletion_of_calls(actor: SessionActor) -> asyncio.Task[None] | None:
    """The deletion of old recorded calls that goes on in a Session actor."""
    [recorded] = [service for service in actor._services if isinstance(service, recording.RecordedCalls)]
    return recorded._deletion


def asked_of_store(monkeypatch: pytest.MonkeyPatch) -> list[Callable[..., Any]]:
    """The functions that the threads of stores are given from now on."""
    asked = []

    def noted(begin: Callable[..., Job], worker: Worker, function: Callable[..., Any], *args: Any) -> Job:
        asked.append(function)
        return begin(worker, function, *args)

    around(monkeypatch, "ask the store's thread", noted)
    return asked
