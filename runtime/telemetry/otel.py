"""Telemetry by OpenTelemetry: the conventions for generative AI say how spans, attributes and metrics are named."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, TracerProvider

from actors.errors import ActorLostError
from actors.interfaces.telemetry import RunTold, TurnTold
from actors.messages.event import now_s
from actors.messages.protocol.outcomes import AnyOutcome, Cancelled, Failed
from actors.messages.session import SessionKey
from actors.rules.tracing.ids import parse_traceparent
from runtime.telemetry.calls import OtelRun
from runtime.telemetry.metrics import Histograms
from runtime.telemetry.spans import Attributes, choose_ids, end_span, is_sampled, start_span

Told = dict[str, str | int]

SCOPE = "raygrove"
"""The name of our tracer and meter."""

FLUSH_S = 2.0
"""How long a process that ends waits at most for what it has told to be exported."""

_DURATIONS = {"invoke_workflow": "turn", "invoke_agent": "run"}


class OtelTelemetry:
    """Implements `Telemetry`.

    Args:
        tracers, meters: the providers of this process.
    """

    is_on = True

    def __init__(self, tracers: TracerProvider, meters: MeterProvider) -> None:
        self._providers: tuple[Any, ...] = (tracers, meters)
        self._tracer = tracers.get_tracer(SCOPE)
        choose_ids(self._tracer)
        self._histograms = Histograms(meters.get_meter(SCOPE))

    def is_sampled(self, trace_id: str) -> bool:
        """Whether a trace without a span above it is recorded."""
        return is_sampled(self._tracer, trace_id, "invoke_workflow")

    def turn(self, turn: TurnTold) -> OtelSpan:
        """A turn begins, or is taken up."""
        name = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": turn.key.app}
        told: Told = {
            **name,
            "gen_ai.conversation.id": turn.key.session,
            "user.id": turn.key.user,
            "raygrove.invocation_id": turn.invocation_id,
            "raygrove.agent": turn.agent,
            "raygrove.epoch": turn.epoch,
            "raygrove.seq": turn.seq,
        }
        span = start_span(
            self._tracer,
            f"invoke_workflow {turn.key.app}",
            told,
            above=turn.above,
            place=turn.place,
            links={"answer": turn.caller},
            started_s=turn.begun_s,
        )
        return OtelSpan(span, self._histograms, name, now_s() - turn.begun_s)

    def run(self, run: RunTold) -> OtelSpan:
        """A run of an agent begins, or is taken up."""
        name = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": run.agent}
        told: Told = {
            **name,
            "gen_ai.conversation.id": run.key.session,
            "raygrove.invocation_id": run.invocation_id,
            "raygrove.epoch": run.epoch,
            **({"raygrove.branch": run.branch} if run.branch else {}),
        }
        span = start_span(
            self._tracer,
            f"invoke_agent {run.agent}",
            told,
            above=run.above,
            place=run.place,
            links={"transfer": run.transferred_from},
        )
        return OtelSpan(span, self._histograms, name)

    def in_run(self, traceparent: str, agent: str, key: SessionKey) -> OtelRun:
        """What the run does in this process."""
        return OtelRun(self._tracer, self._histograms, parse_traceparent(traceparent), agent, key.session)

    async def flush(self) -> None:
        """Have everything exported that was told so far, or give up after a moment."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()

        def flush() -> None:
            for provider in self._providers:
                force = getattr(provider, "force_flush", None)
                if force is not None:
                    force(int(FLUSH_S * 1000))
            loop.call_soon_threadsafe(over.set)

        # A thread of its own, which ends with the process: exporters wait for long when nothing takes what they send.
        threading.Thread(target=_quietly, args=(flush,), name="telemetry", daemon=True).start()
        try:
            async with asyncio.timeout(FLUSH_S):
                await over.wait()
        except TimeoutError:
            return


class OtelSpan:
    """Implements `OpenSpan`: a turn, or a run of an agent.

    Args:
        attributes: of its duration.
        before_s: how long it has gone on already.
    """

    def __init__(self, span: Span, histograms: Histograms, attributes: Attributes, before_s: float = 0.0) -> None:
        self._span = span
        self._attributes = attributes
        self._duration = getattr(histograms, _DURATIONS[str(attributes["gen_ai.operation.name"])])
        self._began_s = time.perf_counter() - max(0.0, before_s)
        self._losses = 0

    @property
    def is_sampled(self) -> bool:
        """Whether it is recorded, and so what happens below it."""
        return self._span.get_span_context().trace_flags.sampled

    def note(self, **facts: str | int) -> None:
        """Add facts about it."""
        self._span.set_attributes({f"raygrove.{name}": fact for name, fact in facts.items()})

    def lost(self, run: int, reason: str) -> None:
        """The process that worked on it was lost."""
        self._losses += 1
        self.note(losses=self._losses)
        error: Told = {"error.type": ActorLostError.__name__, "raygrove.run": run, "raygrove.reason": reason}
        self._span.add_event("raygrove.process_lost", error)

    def end(self, outcome: AnyOutcome, ended_s: float | None = None) -> None:
        """It has ended."""
        self.note(outcome=type(outcome).__name__.lower())
        error = ""
        if isinstance(outcome, Failed):
            error = outcome.error_code or "_OTHER"
        elif isinstance(outcome, Cancelled) and outcome.timeout_s is not None:
            error = "timeout"
        took_s = time.perf_counter() - self._began_s - (max(0.0, now_s() - ended_s) if ended_s is not None else 0.0)
        self._duration.record(max(0.0, took_s), {**self._attributes, **({"error.type": error} if error else {})})
        end_span(self._span, error, ended_s=ended_s)


def _quietly(flush: Any) -> None:
    try:
        flush()
    except RuntimeError:
        # The event loop was closed meanwhile.
        return
