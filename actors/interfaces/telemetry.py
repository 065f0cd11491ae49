"""The seam to telemetry: actors say what begins and ends; what is made of it is not theirs to know.

The Runner tells of turns and of agents' runs, since it is there before, during and after each. An agent's process tells of its
model calls and tool calls. Without telemetry every one of these calls does nothing.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import msgspec

from actors.messages.content import FunctionCall
from actors.messages.json_types import JsonValue
from actors.messages.model import LlmRequest, LlmResponse
from actors.messages.protocol.outcomes import AnyOutcome
from actors.messages.session import SessionKey
from actors.rules.tracing.ids import SpanPlace


class TurnTold(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, as telemetry gets to know it.

    Attributes:
        place: of its span.
        above: the span above it: the caller's, or of a turn that goes on after a pause its first; None: it has none.
        caller: of a turn that goes on after a pause, the span in which the answer was given.
        agent: the agent selected for it.
        epoch: in which it runs.
        seq: the position of the message that opened it.
        begun_s: when that message came, in seconds since the epoch of time.
    """

    place: SpanPlace
    above: SpanPlace | None
    caller: SpanPlace | None
    key: SessionKey
    invocation_id: str
    agent: str
    epoch: int
    seq: int
    begun_s: float


class RunTold(msgspec.Struct, frozen=True, kw_only=True):
    """A run of an agent, as telemetry gets to know it.

    Attributes:
        place: of its span.
        above: the span above it: of the turn, or of the run or the tool call that has asked for it.
        transferred_from: the run that has transferred to it.
    """

    place: SpanPlace
    above: SpanPlace
    transferred_from: SpanPlace | None
    key: SessionKey
    invocation_id: str
    agent: str
    branch: str | None
    epoch: int


class OpenSpan(Protocol):
    """What has begun and was told. It is only seen once it has ended."""

    @property
    def is_sampled(self) -> bool:
        """Whether it is recorded, and so what happens below it."""
        ...

    def note(self, **facts: str | int) -> None:
        """Add facts about it, by names of our own."""
        ...

    def lost(self, run: int, reason: str) -> None:
        """The process that worked on it was lost; another takes it up."""
        ...

    def end(self, outcome: AnyOutcome, ended_s: float | None = None) -> None:
        """It has ended.

        Args:
            ended_s: when, in seconds since the epoch of time; None: now.
        """
        ...


class ModelCallSpan(Protocol):
    """A model call under way."""

    def chunk(self) -> None:
        """A part of a streamed response has come."""
        ...

    def answered(self, response: LlmResponse) -> None:
        """The complete response has come."""
        ...


class ToolCallSpan(Protocol):
    """A tool call under way."""

    def failed(self, error: BaseException) -> None:
        """The tool has raised."""
        ...

    def answered(self, result: JsonValue) -> None:
        """The tool has returned, or a callback in its place."""
        ...


class RunTelemetry(Protocol):
    """Takes what one run of an agent does in its own process."""

    def enter(self) -> None:
        """The running task is that of the run: libraries that users' code calls find the run's span."""
        ...

    def model_call(self, request: LlmRequest, model: str, *, stream: bool) -> AbstractContextManager[ModelCallSpan]:
        """A model call goes on inside the block; what leaves it as an exception is its error.

        Args:
            model: the name of the model, if the request has none.
        """
        ...

    def tool_call(self, call: FunctionCall, description: str) -> AbstractContextManager[ToolCallSpan]:
        """A tool call goes on inside the block."""
        ...

    def end(self) -> None:
        """The run has ended in this process."""
        ...


class Telemetry(Protocol):
    """Takes what actors tell of their work. There is one for each process.

    Attributes:
        is_on: False where nothing is made of it; then nothing need be told.
    """

    is_on: bool

    def is_sampled(self, trace_id: str) -> bool:
        """Whether a trace without a span above it is recorded."""
        ...

    def turn(self, turn: TurnTold) -> OpenSpan:
        """A turn begins, or is taken up."""
        ...

    def run(self, run: RunTold) -> OpenSpan:
        """A run of an agent begins, or is taken up."""
        ...

    def in_run(self, traceparent: str, agent: str, key: SessionKey) -> RunTelemetry:
        """What the run does in this process.

        Args:
            traceparent: of the run's span; "" without one.
        """
        ...

    async def flush(self) -> None:
        """Hand on what was told so far; returns after a moment in any case."""
        ...


class _Nothing:
    """Every span, and every run, where there is no telemetry."""

    is_sampled = False

    def note(self, **facts: str | int) -> None:
        """Do nothing."""

    def lost(self, run: int, reason: str) -> None:
        """Do nothing."""

    def chunk(self) -> None:
        """Do nothing."""

    def answered(self, answer: object) -> None:
        """Do nothing."""

    def failed(self, error: BaseException) -> None:
        """Do nothing."""

    def enter(self) -> None:
        """Do nothing."""

    def model_call(self, request: LlmRequest, model: str, *, stream: bool) -> AbstractContextManager[_Nothing]:
        """Do nothing."""
        return _BLOCK

    def tool_call(self, call: FunctionCall, description: str) -> AbstractContextManager[_Nothing]:
        """Do nothing."""
        return _BLOCK

    def end(self, outcome: AnyOutcome | None = None, ended_s: float | None = None) -> None:
        """Do nothing."""


_NOTHING = _Nothing()
_BLOCK = nullcontext(_NOTHING)


class NoTelemetry:
    """Implements `Telemetry` where nothing is configured to take it."""

    is_on = False

    def is_sampled(self, trace_id: str) -> bool:
        """Return False."""
        return False

    def turn(self, turn: TurnTold) -> OpenSpan:
        """Return a span that is nowhere."""
        return _NOTHING

    def run(self, run: RunTold) -> OpenSpan:
        """Return a span that is nowhere."""
        return _NOTHING

    def in_run(self, traceparent: str, agent: str, key: SessionKey) -> RunTelemetry:
        """Return what takes everything and does nothing."""
        return _NOTHING

    async def flush(self) -> None:
        """Do nothing."""


NO_TELEMETRY = NoTelemetry()
"""Where there is no telemetry."""
