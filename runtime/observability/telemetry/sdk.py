"""The SDK as the variables of OpenTelemetry want it, with exporters of OTLP over HTTP. The only module that imports it."""

from __future__ import annotations

import os

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

SPANS_WAIT_S = 1.0
"""How long spans wait at most for others, if no variable says so: what a process holds back is lost with it."""


def configure(app_name: str) -> None:
    """Put the providers of this process in place.

    Args:
        app_name: names the service, if no variable does.

    Raises:
        ValueError: a variable asks for what is not there.
    """
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    if protocol != "http/protobuf":
        raise ValueError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r}: spans are exported by 'http/protobuf'. For another exporter, set "
            "RAYGROVE_TELEMETRY to a function of yours that configures the SDK"
        )
    is_named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({"process.pid": os.getpid(), **({} if is_named else {"service.name": app_name})})
    if os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "none":
        tracers = TracerProvider(resource=resource)
        delay_ms = None if "OTEL_BSP_SCHEDULE_DELAY" in os.environ else SPANS_WAIT_S * 1000
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=delay_ms))
        trace.set_tracer_provider(tracers)
    if os.environ.get("OTEL_METRICS_EXPORTER", "otlp") != "none":
        metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource))
