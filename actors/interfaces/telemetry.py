"""The seams to telemetry and logs: actors say what begins and ends, what code belongs to a run, and what happens to processes.

The Runner tells of turns and of agents' runs, since it is there before, during and after each. An agent's process tells of its
model calls and tool calls. Without telemetry every one of these calls does nothing.

`RunFacts` marks log records and prints of a run; tasks and threads that user code is run in know them as well. Events of a
deployment are records of one logger that name their kind, so they travel, and are kept in files, as all that is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Literal, NamedTuple

import msgspec

from actors.messages.content import FunctionCall
from actors.messages.json_types import JsonValue
from actors.messages.llm import LlmRequest, LlmResponse
from actors.messages.protocol.base import TurnRef
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.session import SessionKey
from actors.rules.traceparent import SpanPlace


class LossTold(NamedTuple):
    """A process was lost that carried out a run: the number that the run had there, why, and when."""

    number: int
    reason: str
    at_s: float


class TurnTold(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has ended or was paused. Times are in seconds since the epoch of time.

    Attributes:
        place: of its span.
        above: the span above it: the caller's, or of a turn that went on after a pause its first; None: it has none.
        answerer: of a turn that went on after a pause, the span in which the answer was given.
        turn: names it, with the epoch in which it ended.
        agent: the agent selected for it.
        seq: the position of the message that opened it.
        began_s: when that message came.
    """

    place: SpanPlace
    above: SpanPlace | None
    answerer: SpanPlace | None
    turn: TurnRef
    agent: str
    seq: int
    began_s: float
    ended_s: float
    outcome: AnyOutcome


class RunTold(msgspec.Struct, frozen=True, kw_only=True):
    """A run of an agent that has ended. Times are in seconds since the epoch of time.

    Attributes:
        place: of its span.
        above: the span above it: of the turn, or of the run that has asked for it.
        asked_by: the tool call with which that one has asked.
        transferred_from: the run that has transferred to it.
        turn: the turn, with the epoch in which the run ended.
        number: of the run in that epoch.
        losses: processes that were lost in it, in order.
    """

    place: SpanPlace
    above: SpanPlace
    asked_by: SpanPlace | None
    transferred_from: SpanPlace | None
    turn: TurnRef
    agent: str
    branch: str | None
    number: int
    began_s: float
    ended_s: float
    losses: Sequence[LossTold]
    outcome: AnyOutcome


class BudgetTold(NamedTuple):
    """Most of a budget is used, or all of it.

    Attributes:
        scope: whose budget: "turn", "session", "user", "app", or "agent".
        action: what is done about it: "warn", "stop", "ask", "wrap_up", "model", or "leave_out" of a summary.
        field, limit, used: which field of Budget, its value, and how much of it is used, where that is known; else "", 0, 0.
    """

    scope: str
    action: str
    field: str = ""
    limit: float = 0.0
    used: float = 0.0


class ModelCallSpan:
    """A model call under way."""

    def chunk(self) -> None:
        """A part of a streamed response has come."""

    def answered(self, response: LlmResponse) -> None:
        """The complete response has come."""


class ToolCallSpan:
    """A tool call under way."""

    def failed(self, error: BaseException) -> None:
        """The tool has raised."""

    def answered(self, result: JsonValue) -> None:
        """The tool has returned, or a callback in its place."""


class RunTelemetry:
    """Takes what one run of an agent does in its own process."""

    def enter(self) -> None:
        """The running task is that of the run: libraries that users' code calls find the run's span."""

    def model_call(self, request: LlmRequest, model: str, *, stream: bool) -> AbstractContextManager[ModelCallSpan]:
        """A model call goes on inside the block; what leaves it as an exception is its error.

        Args:
            model: the name of the model, if the request has none.
        """
        return nullcontext(ModelCallSpan())

    def tool_call(self, call: FunctionCall, description: str) -> AbstractContextManager[ToolCallSpan]:
        """A tool call goes on inside the block."""
        return nullcontext(ToolCallSpan())

    def budget(self, told: BudgetTold) -> None:
        """A budget has been found used up, or nearly so, before a call that the run is about to make."""

    def traceparent_of(self, call_id: str) -> str:
        """The span of a tool call under way, for a run that it asks for; "" without one."""
        return ""

    def end_run(self) -> None:
        """The run has ended in this process."""


NO_RUN_TELEMETRY = RunTelemetry()
"""Of every run, where there is no telemetry."""


class Telemetry:
    """Takes what actors tell of their work, and makes nothing of it: subclasses do. There is one for each process.

    Attributes:
        is_on: False where nothing is made of it; then nothing need be told.
    """

    is_on = False

    def is_sampled(self, trace_id: str) -> bool:
        """Whether a trace without a span above it is recorded."""
        return False

    def turn(self, turn: TurnTold) -> None:
        """A turn has ended, or was paused."""

    def run(self, run: RunTold) -> None:
        """A run of an agent has ended."""

    def in_run(self, traceparent: str, agent: str, key: SessionKey) -> RunTelemetry:
        """The telemetry of a run in this process.

        Args:
            traceparent: of the run's span; "" without one.
        """
        return NO_RUN_TELEMETRY

    def turn_waited(self, waited_s: float) -> None:
        """A turn has begun, so long after it was asked for. Told whether `is_on` or not."""

    def turn_took(self, turn: TurnRef, took_s: float, outcome: AnyOutcome) -> None:
        """A turn has ended, or was paused: how long that took. Told whether `is_on` or not."""

    async def flush(self) -> None:
        """Hand on what was told so far; returns after a moment in any case."""


NO_TELEMETRY = Telemetry()
"""Where there is no telemetry."""


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


EventKind = Literal[
    "process started",
    "process lost",
    "process replaced",
    "actor replaced",
    "node drains",
    "version changed",
    "store away",
    "store back",
    "control service away",
    "control service back",
    "over Ray",
    "direct again",
    "overload",
    "budget",
]
"""What an event is about: processes, nodes, versions, the store, Ray's control service, messages, overload, or budgets."""

LOGGER = "raygrove.events"
"""The logger of all events."""

KIND = "deployment_event"
"""The attribute of their records that has the kind."""


_logger = logging.getLogger(LOGGER)


def tell_event(kind: EventKind, text: str, *args: object, level: int = logging.WARNING) -> None:
    """Log an event.

    Args:
        text, args: as `logging` takes them.
        level: INFO for what is as it should be. Events of INFO are kept, but reach no log whose level is higher.
    """
    _logger.log(level, text, *args, extra={KIND: kind}, stacklevel=2)
