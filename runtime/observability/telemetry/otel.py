"""Telemetry by OpenTelemetry: the conventions for generative AI say how spans, attributes and metrics are named."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.trace import Span, TracerProvider

from actors.errors import ActorLostError
from actors.interfaces.telemetry import RunTold, Telemetry, TurnTold
from actors.messages.protocol.base import TurnRef
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.session import SessionKey
from actors.rules.traceparent import parse_traceparent
from runtime.observability.catalogue import error_type
from runtime.observability.telemetry.calls import OtelRun
from runtime.observability.telemetry.spans import Attributes, choose_ids, end_span, histograms_of, is_sampled, start_span

Told = dict[str, str | int]

SCOPE = "raygrove"
"""The name of our tracer and meter."""

FLUSH_S = 2.0
"""How long a process that ends waits at most for what it has told to be exported."""


class OtelTelemetry(Telemetry):
    """Makes spans and metrics of what actors tell."""

    is_on = True

    def __init__(self, tracers: TracerProvider, meters: MeterProvider) -> None:
        self._providers: tuple[Any, ...] = (tracers, meters)
        self._tracer = tracers.get_tracer(SCOPE)
        choose_ids(self._tracer)
        self._histograms = histograms_of(meters.get_meter(SCOPE))

    def is_sampled(self, trace_id: str) -> bool:
        """Whether a trace without a span above it is recorded."""
        return is_sampled(self._tracer, trace_id, "invoke_workflow")

    def turn(self, turn: TurnTold) -> None:
        """A turn has ended, or was paused."""
        key = turn.turn.key
        name = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": key.app}
        told: Told = {
            **name,
            "gen_ai.conversation.id": key.session,
            "user.id": key.user,
            "raygrove.agent": turn.agent,
            "raygrove.seq": turn.seq,
        }
        span = start_span(
            self._tracer,
            f"invoke_workflow {key.app}",
            {**told, **_facts(turn)},
            above=turn.above,
            place=turn.place,
            links={"answer": turn.answerer},
            began_s=turn.began_s,
        )
        _end(span, turn, self._histograms.turn, name)

    def run(self, run: RunTold) -> None:
        """A run of an agent has ended."""
        name = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": run.agent}
        told: Told = {
            **name,
            "gen_ai.conversation.id": run.turn.key.session,
            "raygrove.run": run.number,
            **({"raygrove.branch": run.branch} if run.branch else {}),
            **({"raygrove.losses": len(run.losses)} if run.losses else {}),
        }
        span = start_span(
            self._tracer,
            f"invoke_agent {run.agent}",
            {**told, **_facts(run)},
            above=run.above,
            place=run.place,
            links={"transfer": run.transferred_from, "call": run.asked_by if run.transferred_from is None else None},
            began_s=run.began_s,
        )
        for loss in run.losses:
            lost: Told = {"error.type": ActorLostError.__name__, "raygrove.run": loss.number, "raygrove.reason": loss.reason}
            span.add_event("raygrove.process_lost", lost, int(loss.at_s * 1e9))
        _end(span, run, self._histograms.run, name)

    def in_run(self, traceparent: str, agent: str, key: SessionKey) -> OtelRun:
        """The telemetry of a run in this process."""
        return OtelRun(self._tracer, self._histograms, parse_traceparent(traceparent), agent, key.session)

    def turn_waited(self, waited_s: float) -> None:
        """A turn has begun."""
        self._histograms.wait.record(waited_s)

    def turn_took(self, turn: TurnRef, took_s: float, outcome: AnyOutcome) -> None:
        """Do nothing: `turn` has recorded it, with its span."""

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


def _facts(told: TurnTold | RunTold) -> Told:
    return {
        "raygrove.invocation_id": told.turn.invocation_id,
        "raygrove.epoch": told.turn.epoch,
        "raygrove.outcome": type(told.outcome).__name__.lower(),
    }


def _end(span: Span, told: TurnTold | RunTold, duration: Histogram, attributes: Attributes) -> None:
    error = error_type(told.outcome)
    duration.record(max(0.0, told.ended_s - told.began_s), {**attributes, **({"error.type": error} if error else {})})
    end_span(span, error, ended_s=told.ended_s)


def _quietly(flush: Any) -> None:
    try:
        flush()
    except RuntimeError:
        # The event loop was closed meanwhile.
        return
