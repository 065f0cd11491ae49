"""What telemetry costs a turn: with an SDK whose spans go nowhere, where there is none, and where Ray collects metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from actors import LlmRequest, LlmResponse
from actors.interfaces.telemetry import NO_TELEMETRY, Telemetry
from actors.messages import protocol as p
from actors.messages.protocol.base import TurnRef
from actors.messages.session import SessionKey
from actors.rules.traceparent import parse_traceparent
from runtime.observability.catalogue import METRICS, Measure
from runtime.observability.telemetry.caller import callers_traceparent
from runtime.observability.telemetry.measured import MeasuredTelemetry
from tests.benchmarks.figures import Figure, interleaved, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import instant_agent, run_turn, runtime

NAME = "telemetry"
TOLD = 2_000
"""Turns told to no telemetry, to see how long that takes."""


class Nowhere(SpanExporter):
    """Takes spans and forgets them: what a collector does with them is not measured."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def observe() -> None:
    """Put an SDK in place, in each process of a deployment."""
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(Nowhere()))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider())


def measure(plan: Plan) -> list[Figure]:
    """The median of a turn with and without an SDK in all processes, in blocks by turns; and what the calls cost without one."""
    # On the local engine an SDK would stay in this process.
    hooks = {"without": None, "with": f"{__name__}:observe" if plan.engine == "ray" else None}
    with ExitStack() as stack:
        contestants = {}
        for name, hook in hooks.items():
            folder = Path(stack.enter_context(TemporaryDirectory()))
            rt = stack.enter_context(runtime(plan, instant_agent(), folder, f"bench-{name}", telemetry=hook))
            contestants[name] = partial(run_turn, rt, "s1")
        interleaved(contestants, 20)
        samples = interleaved(contestants, plan.turns)
    without, observed = median(samples["without"]), median(samples["with"])
    return [
        Figure("turn without an SDK: median", without, "ms"),
        Figure("turn with an SDK: median", observed, "ms", without, "without"),
        Figure("what a turn tells where there is no SDK", told_ms() / without * 100, "% of it"),
        Figure(
            "what a turn tells where Ray collects metrics",
            told_ms(MeasuredTelemetry(NO_TELEMETRY, METRICS.each(Measure))) / without * 100,
            "% of it",
        ),
    ]


def told_ms(telemetry: Telemetry = NO_TELEMETRY) -> float:
    """Milliseconds that all calls of a plain turn to telemetry take, of which spans are not wanted."""
    key, request, response = SessionKey("bench", "user", "s1"), LlmRequest(), LlmResponse()
    outcome = p.Finished(agent="root")
    turn = TurnRef(key=key, invocation_id="i1", epoch=1)
    began_s = time.perf_counter()
    for _ in range(TOLD):
        in_run = telemetry.in_run(callers_traceparent(), "root", key)
        parse_traceparent("")
        in_run.enter()
        with in_run.model_call(request, "model", stream=False) as call:
            call.chunk()
            call.answered(response)
        in_run.end_run()
        telemetry.turn_took(turn, 0.002, outcome)
    return (time.perf_counter() - began_s) * 1_000 / TOLD
