"""Telemetry in memory, for actors that live in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Sampler

from runtime.observability.telemetry.otel import OtelTelemetry
from tests.support.lossy_engine import Process
from tests.support.otlp_receiver import Histogram, SpanTree, TakenSpan


class Taken(SpanExporter):
    """Takes spans that have ended.

    Args:
        is_dead: the process in which they end was lost: nothing comes out of it.
    """

    def __init__(self, spans: list[TakenSpan], is_dead: Callable[[], bool] = lambda: False) -> None:
        self._spans = spans
        self._is_dead = is_dead

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take spans."""
        if not self._is_dead():
            self._spans += [_taken(span) for span in spans]
        return SpanExportResult.SUCCESS


class Telemetries:
    """The telemetry of several processes, whose spans come to one place."""

    def __init__(self) -> None:
        self.spans: list[TakenSpan] = []

    def of_process(self, process: Process) -> OtelTelemetry:
        """The telemetry of a process that may be lost."""
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(Taken(self.spans, lambda: process.is_dead)))
        return OtelTelemetry(tracers, MeterProvider(shutdown_on_exit=False))


class ProgramSdk:
    """The SDK of a program: what it has taken.

    Attributes:
        tracers: the provider, for spans of the program's own.
    """

    def __init__(self, tracers: TracerProvider, spans: list[TakenSpan], reader: InMemoryMetricReader) -> None:
        self.tracers = tracers
        self.spans = spans
        self._reader = reader

    def tree(self, caller: str = "") -> SpanTree:
        """The spans so far, which are one trace."""
        return SpanTree(self.spans, caller)

    def histograms(self, name: str) -> list[Histogram]:
        """The points of a histogram."""
        data = self._reader.get_metrics_data()
        found: list[Histogram] = []
        for group in data.resource_metrics if data is not None else ():
            for metric in (each for scope in group.scope_metrics for each in scope.metrics):
                if metric.name == name:
                    points: Any = metric.data.data_points
                    found += [Histogram(name, metric.unit or "", point.attributes, point.count, point.sum) for point in points]
        return found


@contextmanager
def program_sdk(monkeypatch: pytest.MonkeyPatch, sampler: Sampler | None = None) -> Iterator[ProgramSdk]:
    """An SDK that this program seems to have configured. A real one would stay in place for all tests."""
    spans: list[TakenSpan] = []
    tracers, reader = TracerProvider(sampler, shutdown_on_exit=False), InMemoryMetricReader()
    tracers.add_span_processor(SimpleSpanProcessor(Taken(spans)))
    meters = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: tracers)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: meters)
    yield ProgramSdk(tracers, spans, reader)


def _taken(span: ReadableSpan) -> TakenSpan:
    context = span.get_span_context()
    assert context is not None
    return TakenSpan(
        f"{context.trace_id:032x}",
        f"{context.span_id:016x}",
        f"{span.parent.span_id:016x}" if span.parent is not None else "",
        span.name,
        dict(span.attributes or {}),
        {f"{link.context.span_id:016x}": str((link.attributes or {}).get("raygrove.link")) for link in span.links},
        tuple(event.name for event in span.events),
        span.start_time or 0,
        span.end_time or 0,
    )


CALLS = [0]
"""How often `count_call` was called."""


def count_call() -> None:
    """Stand for a function that puts an SDK in place."""
    CALLS[0] += 1
