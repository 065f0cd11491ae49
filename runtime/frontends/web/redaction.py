"""Errors of users' code and of models, as clients see them that are no operators: without their texts and tracebacks.

Such a text may hold names of files and machines, and values. The class of the error stays, and so do texts that are all this
project's own. Operators have an admin's credentials, the log of the app, or `raygrove tail`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from actors import errors
from actors.errors import (
    BudgetExceededError,
    FlowLimitExceededError,
    FlowStalledError,
    LlmCallsLimitExceededError,
    RequestError,
    TransferLimitExceededError,
    TurnCancelledError,
    TurnError,
    TurnTimeoutError,
)
from actors.layers.stores.schedule import Schedule
from actors.layers.workflows.rules import METADATA
from actors.messages.event import Event
from actors.messages.turn_info import TurnInfo
from actors.rules.routing.resumption import is_failure

OWN_TEXTS = (
    BudgetExceededError,
    FlowLimitExceededError,
    FlowStalledError,
    LlmCallsLimitExceededError,
    TransferLimitExceededError,
    TurnCancelledError,
    TurnTimeoutError,
)
"""Errors of turns that say nothing but limits and names of the tree."""

WITHHELD = "what it says is for operators: the log of the app has it"

_OWN_NAMES = frozenset(each.__name__ for each in OWN_TEXTS)
_TRACEBACK = "error_traceback"
_log = logging.getLogger(__name__)


def detail_of(error: TurnError, *, for_operator: bool) -> str:
    """The detail of a problem that is the error of a turn."""
    return str(error) if for_operator or isinstance(error, OWN_TEXTS) else WITHHELD


def shown(event: Event, *, for_operator: bool) -> Event:
    """An event as a client gets it."""
    if for_operator:
        return event
    if event.error_code not in _OWN_NAMES and is_failure(event) and event.error_message:
        event = msgspec.structs.replace(event, error_message=WITHHELD)
    if event.error_traceback is not None:
        event = msgspec.structs.replace(event, error_traceback=None)
    decision = (event.custom_metadata or {}).get(METADATA)
    if isinstance(decision, Mapping) and _TRACEBACK in decision:
        kept = {name: value for name, value in decision.items() if name != _TRACEBACK}
        event = msgspec.structs.replace(event, custom_metadata={**(event.custom_metadata or {}), METADATA: kept})
    return event


def shown_turn(turn: TurnInfo, *, for_operator: bool) -> TurnInfo:
    """A turn as a client gets it."""
    name = turn.error.partition(": ")[0]
    if for_operator or turn.state != "failed" or name in _OWN_NAMES:
        return turn
    return msgspec.structs.replace(turn, error=name)


def shown_schedule(schedule: Schedule, *, for_operator: bool) -> Schedule:
    """A schedule as a client gets it."""
    name, _, text = schedule.error.partition(": ")
    kind = getattr(errors, name, None)
    is_own = not text or name in _OWN_NAMES or (isinstance(kind, type) and issubclass(kind, RequestError))
    error = schedule.error if for_operator or is_own else name
    # Whose limits hold is said by the server, not by the schedule.
    return msgspec.structs.replace(schedule, error=error, run_config=None)


@lru_cache(1_024)
def log_failed_turn(invocation_id: str, text: str) -> None:
    """Write into the log of the server why a turn failed, once for all clients that follow it."""
    _log.error("turn %s failed: %s", invocation_id, text)
