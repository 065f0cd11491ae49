"""The figures of actors as samples for systems that collect metrics: what each is called, and which of them only grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from actors.messages.protocol.statistics import Statistics

GROWING = frozenset(
    {
        *("turns", "events", "partials", "commits", "polls"),
        *("invocations", "transfers", "activations", "passivations", "shared", "replaced", "lost"),
        *("granted", "retried", "retries_refused"),
        *("llm_calls", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
        *("budget_warnings", "budget_refusals", "budget_questions", "budget_wrap_ups", "budget_other_models"),
        "budget_left_out",
    }
)
"""Figures that only grow, until their actor is started again; all others go up and down."""


class Figure(NamedTuple):
    """One figure now.

    Attributes:
        name: without the ending `_total` that those have which only grow.
        labels: what it is about, beside the app.
    """

    name: str
    labels: Mapping[str, str]
    value: int
    only_grows: bool


def of_counts(kind: str, counts: Mapping[str, int], labels: Mapping[str, str] | None = None) -> Iterator[Figure]:
    """The figures of actors of a kind: `session`, `runner` or `model`."""
    for name, value in counts.items():
        yield Figure(f"raygrove_{kind}_{name}", labels or {}, value, name in GROWING)


def of_agents(agents: Iterable[Statistics], processes: int) -> Iterator[Figure]:
    """Sums over the agents that live, since a tree may have thousands. They shrink when one leaves its process.

    Args:
        processes: in which the agents live.
    """
    counts: Counter[str] = Counter()
    living = 0
    for agent in agents:
        counts.update(agent.counts)
        living += 1
    yield Figure("raygrove_agents_live", {}, living, False)
    yield Figure("raygrove_agent_processes", {}, processes, False)
    for name, value in counts.items():
        yield Figure(f"raygrove_agents_{name}", {}, value, False)


def of_models(models: Mapping[str, Mapping[str, int]]) -> Iterator[Figure]:
    """The figures of the calls of limited models."""
    for model, calls in models.items():
        yield from of_counts("model", calls, {"model": model})
