"""A receiver of OTLP over HTTP, and the spans that came as one tree."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from actors.rules.traceparent import parse_traceparent


class TakenSpan(NamedTuple):
    """A span that has ended.

    Attributes:
        above: the id of the span above it, "" for a root.
        links: what linked spans are to it, by their ids.
        events: the names of its events.
        pid: the process that has exported it.
        told: the attributes of its events; only of spans of the program's own SDK.
    """

    trace_id: str
    span_id: str
    above: str
    name: str
    attributes: Mapping[str, Any]
    links: Mapping[str, str]
    events: tuple[str, ...]
    start_ns: int
    end_ns: int
    pid: int = 0
    told: tuple[Mapping[str, Any], ...] = ()

    @property
    def operation(self) -> str:
        """What it is, by the conventions."""
        return str(self.attributes.get("gen_ai.operation.name", ""))


class Histogram(NamedTuple):
    """A point of a histogram."""

    name: str
    unit: str
    attributes: Mapping[str, Any]
    number: int
    sum: float


class Received:
    """What was received so far."""

    def __init__(self) -> None:
        self.spans: list[TakenSpan] = []
        self.histograms: list[Histogram] = []
        self.url = ""
        self._changed = threading.Condition()

    def take(self, path: str, raw: bytes) -> None:
        if path == "/v1/traces":
            with self._changed:
                self.spans += _spans(ExportTraceServiceRequest.FromString(raw))
                self._changed.notify_all()
        else:
            assert path == "/v1/metrics", path
            self.histograms += _histograms(ExportMetricsServiceRequest.FromString(raw))

    def of_trace(self, traceparent: str) -> list[TakenSpan]:
        """The spans of a caller's trace."""
        place = parse_traceparent(traceparent)
        return [span for span in self.spans if place is not None and span.trace_id == place.trace_id]

    def wait_for(self, traceparent: str, names: Counter[str], timeout_s: float) -> None:
        """Wait until a caller's trace has spans of these names, each as often, and no others."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._names(traceparent) == names, timeout_s)
        assert came, f"came: {self._names(traceparent)}"

    def _names(self, traceparent: str) -> Counter[str]:
        return Counter(span.name for span in self.of_trace(traceparent))


@contextmanager
def otlp_receiver() -> Iterator[Received]:
    """Listen on a port of its own."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.take(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class SpanTree:
    """Spans of one trace, of which every one but the root has the span above it; none is there twice.

    Args:
        spans: in any order.
        caller: the `traceparent` of the program, above the root.
        may_repeat: a span may have come again, in a later epoch, at the same place.
    """

    def __init__(self, spans: Iterable[TakenSpan], caller: str = "", *, may_repeat: bool = False) -> None:
        self.spans = sorted(spans, key=lambda span: span.start_ns)
        self._by_id = {span.span_id: span for span in self.spans}
        place = parse_traceparent(caller)
        outside = ("", place.span_id if place else "")
        twice = [span_id for span_id, times in Counter(span.span_id for span in self.spans).items() if times > 1]
        if may_repeat:
            places = {(span.span_id, span.name, span.trace_id) for span in self.spans}
            assert len(places) == len(self._by_id)
            self.spans = [span for span in self.spans if self._by_id[span.span_id] is span]
            twice = []
        assert not twice, f"twice: {[self._by_id[span_id].name for span_id in twice]}"
        assert len({span.trace_id for span in self.spans}) == 1
        if place:
            assert self.spans[0].trace_id == place.trace_id
        lost = [span.name for span in self.spans if span.above not in self._by_id and span.above not in outside]
        assert not lost, f"without the span above: {lost}\n{self}"
        (self.root,) = [span for span in self.spans if span.above not in self._by_id]

    def above(self, span: TakenSpan) -> str:
        """The name of the span above one."""
        found = self._by_id.get(span.above)
        return found.name if found is not None else ""

    def named(self, name: str) -> list[TakenSpan]:
        """The spans of a name."""
        return [span for span in self.spans if span.name == name]

    def of(self, operation: str) -> list[TakenSpan]:
        """The spans of an operation."""
        return [span for span in self.spans if span.operation == operation]

    def lines(self, below: str | None = None, depth: int = 0) -> list[str]:
        """The names, indented; what lies below one span is sorted by its beginning."""
        found = []
        for span in self.spans:
            if span.above == below or (below is None and span is self.root):
                found += ["  " * depth + span.name, *self.lines(span.span_id, depth + 1)]
        return found

    def __str__(self) -> str:
        return "\n".join(f"{span.span_id} below {span.above}: {span.name}" for span in self.spans)


def _spans(request: Any) -> Iterator[TakenSpan]:
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield TakenSpan(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    _attributes(span.attributes),
                    {link.span_id.hex(): _attributes(link.attributes)["raygrove.link"] for link in span.links},
                    tuple(event.name for event in span.events),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    resource.get("process.pid", 0),
                )


def _histograms(request: Any) -> Iterator[Histogram]:
    for group in request.resource_metrics:
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                for point in metric.histogram.data_points:
                    yield Histogram(metric.name, metric.unit, _attributes(point.attributes), point.count, point.sum)


def _attributes(given: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in given}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
