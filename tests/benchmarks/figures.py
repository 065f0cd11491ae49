"""Figures of benchmarks: how samples are taken and formatted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from rich.table import Table

OURS = "raygrove"


class Figure(msgspec.Struct, frozen=True):
    """One measured figure.

    Attributes:
        name: what was measured.
        unit: `ms` or `s` for times, anything with `/s` for rates.
        reference: the same measurement of the reference, in the same run; by default the floor, bare connections.
        at: what it depends on, if that is what charts show and peers are measured at: events of history, sessions at once, turns.
            At most one figure of a benchmark has each.
        peers: the same of other projects, in the same run, by their names.
        paired: the ratio, where it is the median of those of blocks that were neighbours in time.
        benchmark: the name of the benchmark, which a run adds.
    """

    name: str
    value: float
    unit: str
    reference: float | None = None
    reference_name: str = "floor"
    at: int | None = None
    peers: Mapping[str, float] = {}
    paired: float | None = None
    benchmark: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times worse than the reference: below 1 it is better."""
        if self.paired is not None:
            return self.paired
        return None if self.reference is None else self._times(self.value, self.reference)

    def peer_ratio(self, peer: str) -> float:
        """How many times worse than ours a peer is: below 1 it is better."""
        return self._times(self.peers[peer], self.value)

    def _times(self, value: float, reference: float) -> float:
        return reference / value if "/s" in self.unit else value / reference


BLOCK = 10
"""Calls of one contestant in a row. Its processes sleep while others are measured, so the first call of a block is left out."""


def interleaved(contestants: Mapping[str, Callable[[], object]], calls: int) -> dict[str, list[float]]:
    """Measure all contestants in short alternating blocks, so that a machine that gets slower does so for all.

    Call by call would not be fair: contestants that share processes would find them awake, the others would not. Blocks come
    forwards and then backwards, since a block is slower behind one of other processes, which have taken the caches.

    Returns:
        Milliseconds of each call, by contestant.
    """
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for number, start in enumerate(range(0, calls, BLOCK)):
        for name, call in list(contestants.items())[:: -1 if number % 2 else 1]:
            call()
            samples[name] += [timed_ms(call) for _ in range(min(BLOCK, calls - start))]
    return samples


class Block(NamedTuple):
    """What a call took in a block of calls: the median of the times, and CPU of all processes, in milliseconds."""

    call_ms: float
    cpu_ms: float


def paired(contestants: Mapping[str, Callable[[], object]], blocks: int, cpu_s: Callable[[], float]) -> dict[str, list[Block]]:
    """Measure all contestants in short blocks, forwards and then backwards: blocks with one number are neighbours in time.

    Args:
        cpu_s: seconds of CPU that all processes of all contestants have had.
    """
    measured: dict[str, list[Block]] = {name: [] for name in contestants}
    for number in range(blocks):
        for name, call in list(contestants.items())[:: -1 if number % 2 else 1]:
            call()
            before_s = cpu_s()
            took_ms = median([timed_ms(call) for _ in range(BLOCK)])
            measured[name].append(Block(took_ms, (cpu_s() - before_s) * 1_000 / BLOCK))
    return measured


def timed_ms(call: Callable[[], object]) -> float:
    """How long a call takes, in milliseconds."""
    began_s = time.perf_counter()
    call()
    return (time.perf_counter() - began_s) * 1_000


def median(samples: Sequence[float]) -> float:
    """The middle of the samples."""
    return statistics.median(samples)


def percentile(samples: Sequence[float], percent: int) -> float:
    """The sample that `percent` of all do not exceed."""
    return sorted(samples)[max(0, -(-len(samples) * percent // 100) - 1)]


def table(figures: Sequence[Figure], title: str) -> Table:
    """All figures, as they are printed."""
    names = peer_names(figures)
    made = Table("benchmark", "figure", title=title)
    for column in (OURS, "unit", "reference", "ratio", *names):
        made.add_column(column, justify="left" if column == "unit" else "right")
    for figure in figures:
        reference = "" if figure.reference is None else f"{rounded(figure.reference)} ({figure.reference_name})"
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        peers = [peer_cell(figure, peer) for peer in names]
        made.add_row(figure.benchmark, figure.name, rounded(figure.value), figure.unit, reference, ratio, *peers)
    return made


def peer_names(figures: Sequence[Figure]) -> list[str]:
    """The peers that any figure is compared with, in order of appearance."""
    return list(dict.fromkeys(peer for figure in figures for peer in figure.peers))


def peer_cell(figure: Figure, peer: str) -> str:
    """A peer's value and how many times worse it is; nothing when it has none."""
    return f"{rounded(figure.peers[peer])} ({figure.peer_ratio(peer):.1f}×)" if peer in figure.peers else ""


def rounded(value: float) -> str:
    """A value as it is printed."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
