"""How a process gets its telemetry: by a function of the user's, by the variables of OpenTelemetry, or it has it already."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from functools import cache
from typing import Any

from actors.interfaces.telemetry import NO_TELEMETRY, Telemetry
from runtime.settings import Settings

logger = logging.getLogger(__name__)


EXPORTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
"""Environment variables each of which asks for an SDK."""

NOT_CONFIGURED = ("ProxyTracerProvider", "NoOpTracerProvider", "_ProxyMeterProvider", "NoOpMeterProvider")


def process_telemetry(settings: Settings, app_name: str) -> Telemetry:
    """The telemetry of this process.

    Nothing of OpenTelemetry is imported where it is not asked for. What is wrong is logged: agents work without telemetry.

    Args:
        settings: `telemetry` names a function that is called once in each process.
        app_name: names the service, if no variable does.
    """
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    try:
        if settings.telemetry is not None:
            _call_once(settings.telemetry)
        elif not is_disabled and any(map(os.environ.get, EXPORTS)):
            _configure_once(app_name)
        elif "opentelemetry.trace" not in sys.modules:
            return NO_TELEMETRY
    except Exception as error:
        logger.error("there is no telemetry in process %s: %s: %s", os.getpid(), type(error).__name__, error)
        return NO_TELEMETRY
    return NO_TELEMETRY if is_disabled else _of_providers()


@cache
def _call_once(place: str) -> None:
    """Call the user's function."""
    module, _, name = place.partition(":")
    getattr(importlib.import_module(module), name)()


@cache
def _configure_once(app_name: str) -> None:
    """Put an SDK in place, unless the program has."""
    from opentelemetry import trace

    if type(trace.get_tracer_provider()).__name__ not in NOT_CONFIGURED:
        return
    try:
        from runtime.observability.telemetry.sdk import configure
    except ImportError as error:
        raise ImportError(
            f"{' or '.join(name for name in EXPORTS if name in os.environ)} asks for an SDK of OpenTelemetry, which is not "
            f"installed: pip install 'raygrove[otel]' ({error})"
        ) from error
    configure(app_name)


def _of_providers() -> Telemetry:
    from opentelemetry import metrics, trace

    tracers: Any = trace.get_tracer_provider()
    meters: Any = metrics.get_meter_provider()
    if all(type(each).__name__ in NOT_CONFIGURED for each in (tracers, meters)):
        return NO_TELEMETRY
    from runtime.observability.telemetry.otel import OtelTelemetry

    return OtelTelemetry(tracers, meters)
