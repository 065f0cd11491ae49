"""The histograms of a deployment, by the conventions for generative AI: each name, unit, label and bound, once; and their values.

OpenTelemetry's exporter takes the names as they are, those of Prometheus and Ray with underscores.

Values of a process are counted in buckets until they are taken. They cost a fraction of a microsecond each, so that they can
be counted in every turn. OpenTelemetry is not needed for them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from actors.messages.event import Usage
from actors.messages.protocol.runs import AnyOutcome, Cancelled, Failed

_SECONDS = tuple(0.01 * 2**exponent for exponent in range(14))
_CHUNK_SECONDS = tuple(0.001 * 2**exponent for exponent in range(14))
_TOKENS = tuple(float(4**exponent) for exponent in range(14))
_CALLS = (0.0, *(float(2**exponent) for exponent in range(10)))

_MODEL = "gen_ai.request.model"
_ERROR = "error.type"


class Metric(NamedTuple):
    """A histogram.

    Attributes:
        unit: as OpenTelemetry writes it: `s`, or a number of `{call}` or `{token}`.
        what: describes it.
        bounds: of its buckets; a value that is equal belongs to the bucket.
        labels: what values of one process differ by. Spans and OpenTelemetry's histograms have more attributes.
    """

    name: str
    unit: str
    what: str
    bounds: tuple[float, ...] = _SECONDS
    labels: tuple[str, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """The name with underscores, and the unit if it is one of Prometheus."""
        return underscored(self.name) + ("_seconds" if self.unit == "s" else "")


def underscored(name: str) -> str:
    """The name of a metric or label as Prometheus has it."""
    return name.replace(".", "_")


T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class OfEach(Generic[T]):
    """Something for each histogram of a deployment, such as its description, or what was counted for it."""

    turn: T
    wait: T
    run: T
    calls_of_models: T
    calls_of_tools: T
    model_call: T
    first_chunk: T
    next_chunk: T
    tokens: T
    tool_call: T

    def all(self) -> Iterator[T]:
        """All of them, in this order."""
        yield from vars(self).values()

    def each(self, make: Callable[[T], U]) -> OfEach[U]:
        """The results of a function of each."""
        return OfEach(*map(make, self.all()))


METRICS = OfEach(
    turn=Metric("gen_ai.workflow.duration", "s", "Duration of turns.", labels=(_ERROR,)),
    wait=Metric("raygrove.turn.wait", "s", "Time from the request for a turn to its beginning."),
    run=Metric("gen_ai.invoke_agent.duration", "s", "Duration of agents' runs."),
    calls_of_models=Metric("gen_ai.invoke_agent.inference_calls", "{call}", "Model calls of an agent's run.", _CALLS),
    calls_of_tools=Metric("gen_ai.invoke_agent.tool_calls", "{call}", "Tool calls of an agent's run.", _CALLS),
    model_call=Metric("gen_ai.client.operation.duration", "s", "Duration of model calls.", labels=(_MODEL, _ERROR)),
    first_chunk=Metric(
        "gen_ai.client.operation.time_to_first_chunk", "s", "Time to the first part of a streamed answer.", labels=(_MODEL,)
    ),
    next_chunk=Metric(
        "gen_ai.client.operation.time_per_output_chunk",
        "s",
        "Time between parts of a streamed answer.",
        _CHUNK_SECONDS,
        (_MODEL,),
    ),
    tokens=Metric("gen_ai.client.token.usage", "{token}", "Tokens of a model call.", _TOKENS, (_MODEL, "gen_ai.token.type")),
    tool_call=Metric("gen_ai.execute_tool.duration", "s", "Duration of tool calls.", labels=("gen_ai.tool.name", _ERROR)),
)
"""Every histogram."""


def error_type(outcome: AnyOutcome) -> str:
    """The type of an outcome's error, by its error code; "" for none."""
    if isinstance(outcome, Failed):
        return outcome.error_code or "_OTHER"
    return "timeout" if isinstance(outcome, Cancelled) and outcome.timeout_s is not None else ""


def token_counts(usage: Usage) -> tuple[int, int]:
    """The tokens that a model call was given, and those that it has said, thoughts included."""
    given = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
    return given, (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)


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


Measures = OfEach[Measure]
"""What is measured in a process."""
