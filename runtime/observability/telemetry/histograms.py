"""The histograms of the catalogue at OpenTelemetry."""

from __future__ import annotations

from opentelemetry.metrics import Histogram, Meter

from runtime.observability.metrics import catalogue
from runtime.observability.metrics.catalogue import Metric
from runtime.observability.telemetry.spans import Attributes


class Histograms:
    """Takes durations in seconds, and numbers of tokens and calls."""

    def __init__(self, meter: Meter) -> None:
        def histogram(metric: Metric) -> Histogram:
            return meter.create_histogram(
                metric.name, metric.unit, metric.what, explicit_bucket_boundaries_advisory=metric.bounds
            )

        self._tokens = histogram(catalogue.TOKENS)
        self.model_call = histogram(catalogue.MODEL_CALL)
        self.first_chunk = histogram(catalogue.FIRST_CHUNK)
        self.next_chunk = histogram(catalogue.NEXT_CHUNK)
        self.turn = histogram(catalogue.TURN)
        self.wait = histogram(catalogue.WAIT)
        self.run = histogram(catalogue.RUN)
        self.tool_call = histogram(catalogue.TOOL_CALL)
        self.calls_of_models = histogram(catalogue.CALLS_OF_MODELS)
        self.calls_of_tools = histogram(catalogue.CALLS_OF_TOOLS)

    def tokens(self, number: int | None, kind: str, attributes: Attributes) -> None:
        """Count the tokens of a model call: `input` or `output`."""
        if number:
            self._tokens.record(number, {**attributes, "gen_ai.token.type": kind})
