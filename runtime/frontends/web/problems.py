"""Errors as HTTP responses: `application/problem+json` (RFC 9457) with the error's class as its type.

Errors of requests say all that they know. Those of stores, actors and models are written to the log of the server, and their
response names only the class: their texts may hold names of files and machines, and values. So may errors of users' code and of
models, here and in events, turns and schedules: clients that are no operators get only the class, or texts that are all this
project's own. Operators have an admin's credentials, the log of the app, or `raygrove tail`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from functools import lru_cache

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from actors import errors
from actors.errors import (
    BudgetExceededError,
    ClusterError,
    DrainingError,
    FlowLimitExceededError,
    FlowNotFoundError,
    FlowStalledError,
    InvocationNotFoundError,
    LlmCallsLimitExceededError,
    NoMemoryError,
    OverloadedError,
    RaygroveError,
    RepeatMismatchError,
    RequestError,
    RunNotFoundError,
    ScheduleExistsError,
    ScheduleNotFoundError,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    StoreUnavailableError,
    TooLargeError,
    TooManyRunsError,
    TooManySchedulesError,
    TransferLimitExceededError,
    TurnCancelledError,
    TurnError,
    TurnStateError,
    TurnTimeoutError,
    UnknownAgentError,
    UnknownFunctionCallError,
)
from actors.layers.stores.schedule import Schedule
from actors.layers.workflows.rules import METADATA
from actors.messages.event import Event
from actors.messages.turn_info import TurnInfo
from actors.rules.routing.resumption import is_failure

PROBLEM = "application/problem+json"

_STATUS: Mapping[type[RaygroveError], int] = {
    SessionNotFoundError: 404,
    InvocationNotFoundError: 404,
    UnknownAgentError: 404,
    UnknownFunctionCallError: 404,
    FlowNotFoundError: 409,
    SessionExistsError: 409,
    RunNotFoundError: 404,
    ScheduleNotFoundError: 404,
    ScheduleExistsError: 409,
    TooManyRunsError: 429,
    TooManySchedulesError: 429,
    SessionBusyError: 409,
    TurnStateError: 409,
    DrainingError: 503,
    OverloadedError: 429,
    TooLargeError: 413,
    RepeatMismatchError: 422,
    RequestError: 400,
    TurnError: 500,
    NoMemoryError: 501,
    StoreUnavailableError: 503,
    ClusterError: 503,
}
"""The statuses of errors, special ones before their bases; any other error is 500."""

_OF_ROUTES = {
    404: "there is nothing at this path: /openapi.json lists what there is",
    405: "the header Allow names the methods that this path takes",
}
"""What is said of requests that no route takes."""

_log = logging.getLogger(__name__)


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong.

    Attributes:
        type: the class of the error, such as `SessionNotFoundError`.
        title: what kind of error this is.
        status: the HTTP status; 0 in a stream, which has begun with another one.
        detail: what exactly is wrong, and what would be right.
    """

    type: str
    title: str
    status: int = 0
    detail: str = ""


class HttpError(Exception):
    """The request is refused.

    The server does so by itself, before the Runtime sees it.

    Args:
        detail: what is wrong, and what would be right.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


class BadRequestError(HttpError):
    """The request is malformed. Arguments: what is wrong."""

    def __init__(self, detail: str) -> None:
        super().__init__(400, detail)


class NotAuthenticatedError(HttpError):
    """Credentials are needed. Arguments: what is wrong with those that were sent."""

    def __init__(self, detail: str) -> None:
        super().__init__(401, detail, {"WWW-Authenticate": "Bearer"})


class NotAllowedError(HttpError):
    """The request is not allowed. Arguments: what its principal may not do."""

    def __init__(self, detail: str) -> None:
        super().__init__(403, detail)


class NotFoundError(HttpError):
    """Not found. Arguments: what there is not."""

    def __init__(self, detail: str) -> None:
        super().__init__(404, detail)


class TooManyStreamsError(HttpError):
    """Too many streams are open. Arguments: how many of what are allowed."""

    def __init__(self, detail: str) -> None:
        super().__init__(429, detail, {"Retry-After": "5"})


def status_of(error: RaygroveError) -> int:
    """The HTTP status of an error of this project."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def problem_of(error: Exception, *, for_operator: bool = False) -> Problem:
    """The problem that a client gets for an error. All that it does not say is logged.

    Args:
        for_operator: the client may know what users' code and models say of their errors.
    """
    name = type(error).__name__
    title = (type(error).__doc__ or name).partition(". Arguments:")[0].partition("\n")[0].rstrip(".")
    if isinstance(error, HttpError):
        return Problem(type=name, title=title, status=error.status, detail=error.detail)
    if isinstance(error, RaygroveError):
        status = status_of(error)
        if isinstance(error, TurnError):
            return Problem(type=name, title=title, status=status, detail=detail_of(error, for_operator=for_operator))
        if status < 500 or isinstance(error, NoMemoryError | DrainingError):
            return Problem(type=name, title=title, status=status, detail=str(error))
        _log.error("%s: %s", name, error)
        return Problem(type=name, title=title, status=status, detail="the log of the server says more")
    if isinstance(error, HTTPException):
        detail = _OF_ROUTES.get(error.status_code, error.detail)
        return Problem(type="HttpError", title=error.detail, status=error.status_code, detail=detail)
    _log.error("a request failed", exc_info=error)
    return Problem(type="InternalError", title="The server failed", status=500, detail="the log of the server says more")


def retry_after(refusal: OverloadedError) -> int:
    """The seconds of the header Retry-After."""
    return math.ceil(refusal.retry_after_s)


async def problem_response(request: Request, error: Exception, *, for_operator: bool = False) -> Response:
    """The response of a request that failed."""
    problem = problem_of(error, for_operator=for_operator)
    headers = getattr(error, "headers", None) or {}
    if isinstance(error, OverloadedError):
        headers = {"Retry-After": str(retry_after(error))}
    if problem.status == 503:
        headers = {"Retry-After": "1", **headers}
    return Response(msgspec.json.encode(problem), problem.status, headers, PROBLEM)


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
