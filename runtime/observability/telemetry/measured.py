"""Telemetry that also measures: what it takes is counted, and handed on to the telemetry that there is otherwise."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Generic, Self, TypeVar

from actors.interfaces.telemetry import BudgetTold, ModelCallSpan, RunTelemetry, RunTold, Telemetry, ToolCallSpan, TurnTold
from actors.messages.content import FunctionCall
from actors.messages.json_types import JsonValue
from actors.messages.llm import LlmRequest, LlmResponse
from actors.messages.protocol.base import TurnRef
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.session import SessionKey
from runtime.observability.catalogue import Measure, Measures, error_type, token_counts

Span = TypeVar("Span")


class MeasuredTelemetry(Telemetry):
    """Whether it is on is said by the telemetry that goes on: measures need none of its spans."""

    def __init__(self, inner: Telemetry, measures: Measures) -> None:
        self._inner = inner
        self._measures = measures
        self.is_on = inner.is_on

    def is_sampled(self, trace_id: str) -> bool:
        """Whether a trace without a span above it is recorded."""
        return self._inner.is_sampled(trace_id)

    async def flush(self) -> None:
        """Hand on what was told so far."""
        await self._inner.flush()

    def turn(self, turn: TurnTold) -> None:
        """A turn has ended, or was paused."""
        self._inner.turn(turn)

    def run(self, run: RunTold) -> None:
        """A run of an agent has ended."""
        self._inner.run(run)

    def in_run(self, traceparent: str, agent: str, key: SessionKey) -> MeasuredRun:
        """The telemetry of a run in this process."""
        return MeasuredRun(self._inner.in_run(traceparent, agent, key), self._measures)

    def turn_waited(self, waited_s: float) -> None:
        """A turn has begun."""
        self._measures.wait.add(waited_s)
        self._inner.turn_waited(waited_s)

    def turn_took(self, turn: TurnRef, took_s: float, outcome: AnyOutcome) -> None:
        """A turn has ended, or was paused."""
        self._measures.turn.add(took_s, error_type(outcome))
        self._inner.turn_took(turn, took_s, outcome)


class MeasuredRun(RunTelemetry):
    """Measures what a run does."""

    def __init__(self, inner: RunTelemetry, measures: Measures) -> None:
        self._inner = inner
        self._measures = measures
        self._began_s = time.perf_counter()
        self._model_calls = 0
        self._tool_calls = 0

    def enter(self) -> None:
        """The running task is that of the run."""
        self._inner.enter()

    def traceparent_of(self, call_id: str) -> str:
        """The span of a tool call under way."""
        return self._inner.traceparent_of(call_id)

    def budget(self, told: BudgetTold) -> None:
        """A budget has been found used up, or nearly so."""
        self._inner.budget(told)

    def model_call(self, request: LlmRequest, model: str, *, stream: bool) -> MeasuredModelCall:
        """A model call goes on inside the block."""
        self._model_calls += 1
        inner = self._inner.model_call(request, model, stream=stream)
        return MeasuredModelCall(inner, self._measures, request.model or model, streams=stream)

    def tool_call(self, call: FunctionCall, description: str) -> MeasuredToolCall:
        """A tool call goes on inside the block."""
        self._tool_calls += 1
        return MeasuredToolCall(self._inner.tool_call(call, description), self._measures.tool_call, call.name)

    def end_run(self) -> None:
        """The run has ended in this process."""
        measures = self._measures
        measures.run.add(time.perf_counter() - self._began_s)
        measures.calls_of_models.add(self._model_calls)
        measures.calls_of_tools.add(self._tool_calls)
        self._inner.end_run()


class _MeasuredCall(Generic[Span]):
    """The block in which a call goes on.

    Args:
        inner: the block of the telemetry that goes on.
        durations: takes how long the call took, with what was called and the class of its error.
        called: the model or the tool.
    """

    def __init__(self, inner: AbstractContextManager[Span], durations: Measure, called: str) -> None:
        self._inner = inner
        self._durations = durations
        self._called = called
        self._error = ""
        self._began_s = time.perf_counter()

    def __enter__(self) -> Self:
        self._span = self._inner.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        name = kind.__name__ if kind is not None else self._error
        self._durations.add(time.perf_counter() - self._began_s, self._called, name)
        self._inner.__exit__(kind, error, traceback)


class MeasuredModelCall(_MeasuredCall[ModelCallSpan], ModelCallSpan):
    """Measures a model call."""

    def __init__(self, inner: AbstractContextManager[ModelCallSpan], measures: Measures, model: str, *, streams: bool) -> None:
        super().__init__(inner, measures.model_call, model)
        self._measures = measures
        self._streams = streams
        self._chunk_s = 0.0

    def chunk(self) -> None:
        """A part of a streamed response has come."""
        if self._streams:
            now_s, measures = time.perf_counter(), self._measures
            if self._chunk_s:
                measures.next_chunk.add(now_s - self._chunk_s, self._called)
            else:
                measures.first_chunk.add(now_s - self._began_s, self._called)
            self._chunk_s = now_s
        self._span.chunk()

    def answered(self, response: LlmResponse) -> None:
        """The complete response has come."""
        self._error = response.error_code or ""
        if response.usage is not None:
            for kind, number in zip(("input", "output"), token_counts(response.usage), strict=True):
                if number:
                    self._measures.tokens.add(number, self._called, kind)
        self._span.answered(response)


class MeasuredToolCall(_MeasuredCall[ToolCallSpan], ToolCallSpan):
    """Measures a tool call."""

    def failed(self, error: BaseException) -> None:
        """The tool has raised."""
        self._error = type(error).__name__
        self._span.failed(error)

    def answered(self, result: JsonValue) -> None:
        """The tool has returned, or a callback in its place."""
        self._span.answered(result)
