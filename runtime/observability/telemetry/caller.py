"""The span in which a program starts a turn. OpenTelemetry is not imported for it: a program without it has no span."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from actors.rules.traceparent import SpanPlace, parse_traceparent

_given: ContextVar[str] = ContextVar("raygrove_caller", default="")


@contextmanager
def called_with(traceparent: str) -> Iterator[None]:
    """Turns that are started inside the block belong to the trace of a header `traceparent`; one that is wrong is ignored."""
    token = _given.set(traceparent if parse_traceparent(traceparent) is not None else "")
    try:
        yield
    finally:
        _given.reset(token)


def callers_traceparent() -> str:
    """The span that goes on in the calling code, or the header that came with its request; "" without either."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            return SpanPlace(f"{span.trace_id:032x}", f"{span.span_id:016x}", bool(span.trace_flags & 1)).traceparent
    return _given.get()
