"""Tables of what a cluster does, and of how far that is from what this machine does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec
from rich.table import Table

from tests.benchmarks.figures import rounded
from tests.capacity.cluster import Cluster
from tests.capacity.simulation import NODES, Load, Outcome
from tests.capacity.unit_costs import AGENT, DATABASE, RUNNER, SESSION, STORE, WEB, MeasuredLoad, UnitCosts

NAMES = {
    WEB: "web programs",
    RUNNER: "Runners",
    SESSION: "Session actors",
    STORE: "their store threads",
    AGENT: "processes of agents",
    DATABASE: "databases (cores)",
    NODES: "nodes (cores)",
}
"""By part, its name in tables."""

_MANY = 0.5
"""Of the sessions, when so many have a turn under way others wait."""

_QUIET = 0.2
"""Cores that other programs may have while figures are taken."""

WITHIN: Mapping[str, float] = {"turns/s": 0.25, "p50, ms": 0.25, "p99, ms": 0.25}
"""By figure: the simulation is to be no further from what was measured."""


def parts_table(cluster: Cluster, outcome: Outcome) -> Table:
    """How busy every part is, and what it bears."""
    made = Table("part", title=f"{cluster.nodes} nodes of {cluster.cores} cores")
    for column in ("number", "utilisation", "of the busiest", "bears, turns/s"):
        made.add_column(column, justify="right")
    for part, busy in outcome.parts.items():
        bears = f"{rounded(busy.bears)}{' ←' if part == outcome.bottleneck else ''}"
        made.add_row(NAMES[part], f"{busy.number:g}", f"{busy.mean:.0%}", f"{busy.highest:.0%}", bears)
    return made


def verdict(outcome: Outcome, load: Load, highest: float) -> list[str]:
    """The same in sentences: latencies, what is first to be too busy, and the highest rate."""
    told = [
        f"{rounded(outcome.rate)} turns/s end, {rounded(outcome.at_once)} are under way.",
        f"A turn takes p50 {rounded(outcome.p50_ms)} ms, p95 {rounded(outcome.p95_ms)} ms, p99 {rounded(outcome.p99_ms)} ms.",
        f"First bottleneck: {NAMES[outcome.bottleneck]}. Highest rate: {rounded(highest)} turns/s.",
    ]
    if load.rate is not None and load.rate > highest:
        told.append(f"Saturated: {rounded(load.rate)} turns/s are asked for. The line grows, and latencies with it.")
    elif load.rate is not None and outcome.at_once > _MANY * load.sessions:
        told.append(f"Turns wait for others of their session: {load.sessions:,} sessions have one at a time each.")
    return told


class Comparison(msgspec.Struct, frozen=True):
    """A load beside its simulation, in one round or in several.

    Attributes:
        sessions: at once.
        figures: by name: what was measured, what the simulation says, and by which share the second is more than the first. Of
            several rounds each is the median.
        others: cores that other programs had, in the worst round.
    """

    sessions: int
    figures: Mapping[str, tuple[float, float, float]]
    others: float

    @property
    def wrong(self) -> list[str]:
        """Figures of which the simulation is too far from what was measured."""
        return [name for name, (*_, error) in self.figures.items() if abs(error) > WITHIN[name]]


def compared(rounds: Sequence[tuple[MeasuredLoad, Outcome]]) -> Comparison:
    """One load of all rounds, each beside the simulation with the costs of its round."""
    of_each = [errors(*each) for each in rounds]
    figures = {
        name: tuple(median(values) for values in zip(*(each[number] for each in of_each), strict=True))
        for number, name in enumerate(WITHIN)
    }
    first, _ = rounds[0]
    return Comparison(first.sessions, figures, max(load.others for load, _ in rounds))


def validation(comparisons: Sequence[Comparison]) -> Table:
    """What was measured, what the simulation says, and how far apart the two are."""
    made = Table("sessions", title="measured, simulated")
    for name, within in WITHIN.items():
        made.add_column(f"{name}: within {within:.0%}", justify="right")
    made.add_column("of other programs, cores", justify="right")
    for each in comparisons:
        cells = [
            f"{rounded(measured)}, {rounded(simulated)} ({error:+.0%}{' !' if name in each.wrong else ''})"
            for name, (measured, simulated, error) in each.figures.items()
        ]
        made.add_row(str(each.sessions), *cells, f"{each.others:.2f}")
    return made


def disturbance(comparisons: Sequence[Comparison]) -> str:
    """A warning when other programs had much of the machine; nothing when they had not."""
    most = max(each.others for each in comparisons)
    if most <= _QUIET:
        return ""
    return f"Other programs had up to {most:.1f} cores meanwhile: measure again when the machine has nothing else to do."


def costs_table(costs: UnitCosts) -> Table:
    """CPU of every part."""
    made = Table("part", title=f"{costs.measured} · {costs.machine}")
    for column in ("a pass, ms", "a turn, ms", "a further event, ms"):
        made.add_column(column, justify="right")
    for where, parts in (("", costs.parts), (", PostgreSQL", costs.postgres)):
        for part, cost in parts.items():
            made.add_row(f"{NAMES[part]}{where}", *(f"{each:.3f}" for each in (cost.pass_ms, cost.turn_ms, cost.event_ms)))
    return made


def errors(load: MeasuredLoad, outcome: Outcome) -> list[tuple[float, float, float]]:
    """Rate, median and p99: measured, simulated, and by which share the second is more than the first."""
    pairs = [(load.rate, outcome.rate), (load.p50_ms, outcome.p50_ms), (load.p99_ms, outcome.p99_ms)]
    return [(measured, simulated, simulated / measured - 1) for measured, simulated in pairs]
