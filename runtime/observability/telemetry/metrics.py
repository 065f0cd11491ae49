"""Histograms by the conventions for generative AI."""

from __future__ import annotations

from opentelemetry.metrics import Histogram, Meter

from runtime.observability.telemetry.spans import Attributes

_SECONDS = tuple(0.01 * 2**exponent for exponent in range(14))
_CHUNK_SECONDS = tuple(0.001 * 2**exponent for exponent in range(14))
_TOKENS = tuple(4**exponent for exponent in range(14))
_CALLS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Histograms:
    """What is measured: durations in seconds, and numbers of tokens and calls."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, what: str, bounds: tuple[float, ...] = _SECONDS) -> Histogram:
            return meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=bounds)

        def calls(name: str, unit: str, what: str) -> Histogram:
            return meter.create_histogram(name, unit, what, explicit_bucket_boundaries_advisory=_CALLS)

        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens of a model call.", explicit_bucket_boundaries_advisory=_TOKENS
        )
        self.model_call = seconds("gen_ai.client.operation.duration", "Duration of model calls.")
        self.first_chunk = seconds("gen_ai.client.operation.time_to_first_chunk", "Time to the first part of a streamed answer.")
        self.next_chunk = seconds(
            "gen_ai.client.operation.time_per_output_chunk", "Time between parts of a streamed answer.", _CHUNK_SECONDS
        )
        self.turn = seconds("gen_ai.workflow.duration", "Duration of turns.")
        self.run = seconds("gen_ai.invoke_agent.duration", "Duration of agents' runs.")
        self.tool_call = seconds("gen_ai.execute_tool.duration", "Duration of tool calls.")
        self.calls_of_models = calls("gen_ai.invoke_agent.inference_calls", "{call}", "Model calls of an agent's run.")
        self.calls_of_tools = calls("gen_ai.invoke_agent.tool_calls", "{call}", "Tool calls of an agent's run.")

    def tokens(self, number: int | None, kind: str, attributes: Attributes) -> None:
        """Count the tokens of a model call: `input` or `output`."""
        if number:
            self._tokens.record(number, {**attributes, "gen_ai.token.type": kind})
