"""Spans with ids that are decided before they begin, and under a span of any process; and the histograms at OpenTelemetry."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from actors.rules.traceparent import SpanPlace
from runtime.observability.catalogue import METRICS, OfEach

logger = logging.getLogger(__name__)


Attributes = Mapping[str, str] | Mapping[str, str | int] | Mapping[str, str | bool | int | float]

_chosen: ContextVar[SpanPlace | None] = ContextVar("raygrove_span", default=None)


class ChosenIds:
    """Implements the SDK's `IdGenerator`: the ids that the span has which is being started, else random ones."""

    def generate_span_id(self) -> int:
        """The id of the span."""
        chosen = _chosen.get()
        return int(chosen.span_id, 16) if chosen is not None else random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        """The id of the trace, for a span without one above it."""
        chosen = _chosen.get()
        return int(chosen.trace_id, 16) if chosen is not None else random.getrandbits(128) or 1

    def is_trace_id_random(self) -> bool:
        """False: most are derived from the turn."""
        return False


def choose_ids(tracer: Tracer) -> None:
    """Have the spans of a tracer get the ids that are chosen for them."""
    if hasattr(tracer, "id_generator"):
        tracer.id_generator = ChosenIds()
    else:
        logger.warning(
            "spans of %s get ids of their own, so those of other processes do not hang together with them", type(tracer).__name__
        )


def _ns(time_s: float | None) -> int | None:
    return int(time_s * 1e9) if time_s is not None else None


def context_of(place: SpanPlace) -> Context:
    """A context in which a span of another process goes on."""
    return set_span_in_context(NonRecordingSpan(_span_context(place)), Context())


def _span_context(place: SpanPlace) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if place.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(int(place.trace_id, 16), int(place.span_id, 16), is_remote=True, trace_flags=flags)


def start_span(
    tracer: Tracer,
    name: str,
    attributes: Attributes,
    *,
    above: SpanPlace | None,
    place: SpanPlace | None = None,
    links: Mapping[str, SpanPlace | None] | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    began_s: float | None = None,
) -> Span:
    """Start a span. What samplers and processors raise is logged: a turn must not fail because of them.

    Args:
        above: the span above it; None: it is the root of its trace.
        place: its ids; None: those that the tracer gives it.
        links: to other spans, by what they are to this one.
        began_s: in seconds since the epoch; None: now.
    """
    token = _chosen.set(place)
    try:
        return tracer.start_span(
            name,
            context_of(above) if above is not None else Context(),
            kind,
            dict(attributes),
            [Link(_span_context(other), {"raygrove.link": why}) for why, other in (links or {}).items() if other is not None],
            _ns(began_s),
        )
    except Exception:
        logger.exception("a span cannot be started")
        return INVALID_SPAN
    finally:
        _chosen.reset(token)


def end_span(span: Span, error: str = "", description: str = "", ended_s: float | None = None) -> None:
    """End a span.

    Args:
        error: what has failed, by a class name; "" when nothing has.
        ended_s: in seconds since the epoch; None: now.
    """
    try:
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR, description or None))
        span.end(_ns(ended_s))
    except Exception:
        logger.exception("a span cannot be ended")


def traceparent_of(span: Span) -> str:
    """The span as the value of the header `traceparent`; "" for one that is not there."""
    context = span.get_span_context()
    if not context.is_valid:
        return ""
    return SpanPlace(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled).traceparent


def is_sampled(tracer: Any, trace_id: str, name: str) -> bool:
    """Whether a tracer would record the root span of a trace."""
    sampler = getattr(tracer, "sampler", None)
    if sampler is None:
        return True
    try:
        return bool(sampler.should_sample(None, int(trace_id, 16), name).decision.is_sampled())
    except Exception:
        logger.exception("a trace cannot be sampled")
        return True


Histograms = OfEach[Histogram]
"""They take durations in seconds, and numbers of tokens and calls."""


def histograms_of(meter: Meter) -> Histograms:
    """Make the histograms of a process."""
    return METRICS.each(
        lambda metric: meter.create_histogram(
            metric.name, metric.unit, metric.what, explicit_bucket_boundaries_advisory=metric.bounds
        )
    )
