"""Draws charts: `python -m tests.benchmarks.charts CHARTS FOLDER`, the first a list of `Chart` as JSON.

Runs in an environment that has matplotlib and nothing of ours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COLOURS = {"raygrove": "#0b6e4f", "floor": "#9aa0a6"}
_OTHERS = (("#d1495b", "s"), ("#edae49", "^"), ("#30638e", "D"), ("#7b5ea7", "v"))


@dataclass(frozen=True)
class Chart:
    """A chart with both axes logarithmic.

    Attributes:
        name: of its file.
        title, x, y: its labels.
        lines: points of each line, by its name.
    """

    name: str
    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


def draw(chart: Chart, folder: Path) -> None:
    """Draw a chart as SVG: the same bytes for the same chart."""
    import matplotlib  # type: ignore[import-not-found,unused-ignore]
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, NullFormatter  # type: ignore[import-not-found,unused-ignore]

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": chart.name, "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10})
    drawn, axes = pyplot.subplots(figsize=(7.2, 4.2), layout="constrained")
    others = iter(_OTHERS)
    for name, points in chart.lines.items():
        colour, mark = (_COLOURS[name], "o") if name in _COLOURS else next(others)
        style: dict[str, Any] = {"color": colour, "marker": mark, "markersize": 5, "label": name}
        style |= {"linestyle": "--" if name == "floor" else "-", "linewidth": 2.5 if name == "raygrove" else 1.5}
        axes.plot(*zip(*points, strict=True), **style)
    axes.set(xscale="log", yscale="log", xlabel=chart.x, ylabel=chart.y)
    axes.set_title(chart.title, loc="left", fontweight="bold")
    axes.xaxis.set_ticks(sorted({at for points in chart.lines.values() for at, _ in points}))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_told))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(which="major", color="#e3e3e3", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    drawn.savefig(folder / f"{chart.name}.svg", metadata={"Date": None})
    pyplot.close(drawn)


def _told(value: float, _: int) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


if __name__ == "__main__":
    for made in json.loads(sys.argv[1]):
        draw(Chart(**made), Path(sys.argv[2]))
