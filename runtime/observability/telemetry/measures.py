"""Durations and numbers by the conventions for generative AI, counted in buckets until they are taken.

They cost a fraction of a microsecond each, so that they can be counted in every turn. OpenTelemetry is not needed for them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

_SECONDS = tuple(0.01 * 4**exponent for exponent in range(8))
_CHUNK_SECONDS = tuple(0.001 * 4**exponent for exponent in range(8))
_TOKENS = tuple(float(16**exponent) for exponent in range(6))
_CALLS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)


class Counted(NamedTuple):
    """What was counted of values with the same labels.

    Attributes:
        labels: their values, in the order of the measure's labels.
        buckets: how many values each bound has taken, and then how many were above all.
        total: the sum of the values.
    """

    labels: tuple[str, ...]
    buckets: list[int]
    total: float


class Measure:
    """Values of one kind.

    Args:
        name: as the conventions have it in Prometheus.
        what: describes it.
        labels: the names of what values differ by.
        bounds: of its buckets; a value that is equal belongs to the bucket.
    """

    def __init__(self, name: str, what: str, labels: tuple[str, ...], bounds: tuple[float, ...] = _SECONDS) -> None:
        self.name = name
        self.what = what
        self.labels = labels
        self.bounds = bounds
        self._buckets: dict[tuple[str, ...], list[int]] = {}
        self._totals: dict[tuple[str, ...], float] = {}

    def add(self, value: float, *labels: str) -> None:
        """Count a value."""
        buckets = self._buckets.get(labels)
        if buckets is None:
            buckets = self._buckets[labels] = [0] * (len(self.bounds) + 1)
        buckets[bisect_left(self.bounds, value)] += 1
        self._totals[labels] = self._totals.get(labels, 0.0) + value

    def take(self) -> Iterator[Counted]:
        """What was counted since the last call."""
        buckets, totals = self._buckets, self._totals
        self._buckets, self._totals = {}, {}
        for labels, counts in buckets.items():
            yield Counted(labels, counts, totals[labels])


class Measures:
    """What is measured in a process."""

    def __init__(self) -> None:
        model, error = "gen_ai_request_model", "error_type"
        self.turn = Measure("gen_ai_workflow_duration_seconds", "Duration of turns.", (error,))
        self.run = Measure("gen_ai_invoke_agent_duration_seconds", "Duration of agents' runs in their process.", ())
        self.model_call = Measure("gen_ai_client_operation_duration_seconds", "Duration of model calls.", (model, error))
        self.first_chunk = Measure(
            "gen_ai_client_operation_time_to_first_chunk_seconds", "Time to the first part of a streamed answer.", (model,)
        )
        self.next_chunk = Measure(
            "gen_ai_client_operation_time_per_output_chunk_seconds",
            "Time between parts of a streamed answer.",
            (model,),
            _CHUNK_SECONDS,
        )
        self.tokens = Measure("gen_ai_client_token_usage", "Tokens of a model call.", (model, "gen_ai_token_type"), _TOKENS)
        self.tool_call = Measure("gen_ai_execute_tool_duration_seconds", "Duration of tool calls.", ("gen_ai_tool_name", error))
        self.calls_of_models = Measure("gen_ai_invoke_agent_inference_calls", "Model calls of an agent's run.", (), _CALLS)
        self.calls_of_tools = Measure("gen_ai_invoke_agent_tool_calls", "Tool calls of an agent's run.", (), _CALLS)

    def all(self) -> Iterator[Measure]:
        """Every measure."""
        yield from vars(self).values()
