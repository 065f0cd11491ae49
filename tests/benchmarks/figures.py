"""What a benchmark says, and how its samples are taken and told."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
from rich.table import Table


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured figure.

    Attributes:
        benchmark: the name of the benchmark.
        name: what was measured.
        unit: `ms` or `s` for times, anything with `/s` for rates.
        reference: the same of whatever it is compared with, measured in the same run; by default the raw Ray floor.
    """

    benchmark: str
    name: str
    value: float
    unit: str
    reference: float | None = None
    reference_name: str = "floor"

    @property
    def ratio(self) -> float | None:
        """How many times worse than the reference: below 1 it is better."""
        if self.reference is None:
            return None
        return self.reference / self.value if "/s" in self.unit else self.value / self.reference


BLOCK = 10
"""Calls of one contestant in a row. Its processes sleep while others are measured, so the first call of a block is left out."""


def interleaved(contestants: Mapping[str, Callable[[], object]], calls: int) -> dict[str, list[float]]:
    """Measure everybody in short blocks by turns, so that a machine that gets slower does so for all.

    Call by call would not be fair: contestants that share processes would find them awake, the others would not.

    Returns:
        Milliseconds of each call, by contestant.
    """
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for start in range(0, calls, BLOCK):
        for name, call in contestants.items():
            call()
            samples[name] += [timed_ms(call) for _ in range(min(BLOCK, calls - start))]
    return samples


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
    made = Table("benchmark", "figure", title=title)
    for column in ("value", "unit", "reference", "ratio"):
        made.add_column(column, justify="left" if column == "unit" else "right")
    for figure in figures:
        reference = "" if figure.reference is None else f"{_rounded(figure.reference)} ({figure.reference_name})"
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        made.add_row(figure.benchmark, figure.name, _rounded(figure.value), figure.unit, reference, ratio)
    return made


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
