"""Values of the histograms of a process, counted in buckets until they are taken.

They cost a fraction of a microsecond each, so that they can be counted in every turn. OpenTelemetry is not needed for them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from runtime.observability.metrics import catalogue
from runtime.observability.metrics.catalogue import Metric, underscored


class Counted(NamedTuple):
    """What was counted of values with the same labels.

    Attributes:
        labels: their values, in the order of the metric's labels.
        buckets: how many values each bound has taken, and then how many were above all.
    """

    labels: tuple[str, ...]
    buckets: list[int]
    total: float


class Measure:
    """Values of one kind."""

    def __init__(self, metric: Metric) -> None:
        self.name = metric.prometheus_name
        self.what = metric.what
        self.labels = tuple(underscored(label) for label in metric.labels)
        self.bounds = metric.bounds
        self._buckets: dict[tuple[str, ...], list[int]] = {}
        self._totals: dict[tuple[str, ...], float] = {}

    def add(self, value: float, *labels: str) -> None:
        """Count a value."""
        buckets = self._buckets.get(labels)
        if buckets is None:
            buckets = self._buckets[labels] = [0] * (len(self.bounds) + 1)
        buckets[bisect_left(self.bounds, value)] += 1
        self._totals[labels] = self._totals.get(labels, 0.0) + value

    def take_counted(self) -> Iterator[Counted]:
        """Take all values that were counted since the last call."""
        buckets, totals = self._buckets, self._totals
        self._buckets, self._totals = {}, {}
        for labels, counts in buckets.items():
            yield Counted(labels, counts, totals[labels])


class Measures:
    """What is measured in a process."""

    def __init__(self) -> None:
        self.turn = Measure(catalogue.TURN)
        self.wait = Measure(catalogue.WAIT)
        self.run = Measure(catalogue.RUN)
        self.calls_of_models = Measure(catalogue.CALLS_OF_MODELS)
        self.calls_of_tools = Measure(catalogue.CALLS_OF_TOOLS)
        self.model_call = Measure(catalogue.MODEL_CALL)
        self.first_chunk = Measure(catalogue.FIRST_CHUNK)
        self.next_chunk = Measure(catalogue.NEXT_CHUNK)
        self.tokens = Measure(catalogue.TOKENS)
        self.tool_call = Measure(catalogue.TOOL_CALL)

    def all(self) -> Iterator[Measure]:
        """Every measure."""
        yield from vars(self).values()
