"""Reports from `results.json`: RESULTS.md, the charts, and the table of costs in README.

`python -m tests.benchmarks.report` writes them again, without measuring anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from statistics import median

import msgspec

from tests.benchmarks import results as runs
from tests.benchmarks import throughput, turns
from tests.benchmarks.charts import Chart
from tests.benchmarks.environments import Environment
from tests.benchmarks.figures import OURS, Figure, peer_cell, peer_names, rounded
from tests.benchmarks.results import Results

README = Path("README.md")
_BEGIN, _END = "<!-- costs: made by make bench -->", "<!-- end of costs -->"

_BUSY = "**The machine was busy with other things when this run began: take no figure from here, run it again.**"

_COSTS = {
    ("turn", "at 10 events: median"): "a turn, 10 events of history",
    ("turn", "at 10,000 events: median"): "a turn, 10,000 events of history",
    ("throughput", "256 sessions: rate"): "turns a second, 256 sessions at once",
}
"""The figures that README shows, by benchmark and figure; RESULTS.md has them all."""

_METHOD = f"""## How it is measured

A turn is one message of the user, of 100 characters, to one agent whose model answers "ok" at once, until the program has the
answer; everything is on disk by then, in SQLite. Ratios are made of figures of the same run and say how many times worse the
first is, so below 1 it is better; a peer's ratio is against {OURS}. Figures of other runs, even on one machine, compare badly:
the pace, which is what a fixed piece of pure Python takes, says how badly. An interpreter that was built without
profile-guided optimisation, as some builds from source are, takes up to twice the time for it, and an eighth more CPU for a turn.

**floor** is the same messages with as many bytes, between processes without any logic, and as many commits to SQLite with full
sync (`floor.py`). They go over bare connections, which nothing makes trustworthy (`bare.py`): what {OURS} can reach at best. The
same as **bare Ray calls** is beside it: what an actor model pays whose messages are calls of Ray's.

**Peers** run in one process each, without Ray, in an environment made from a lock file in `locks/`. Each does the same turn by
its own interface for models, and keeps its sessions on disk as it does by default: google-adk with `DatabaseSessionService` on
SQLite, LangGraph with `AsyncSqliteSaver` and a graph of one node, the OpenAI Agents SDK with `SQLiteSession`, tracing off
(`peers/`). Histories are written ahead, half of them being the user's. Turns a second are those of sessions that have had up to
eight turns. google-adk waits up to 120 s for SQLite's lock; with the usual 5 s, turns of many sessions fail.
"""


def write(results: Results, folder: Path = runs.FOLDER, readme: Path | None = None) -> None:
    """Write everything into a folder.

    Args:
        readme: whose table of costs is renewed; None leaves it alone.
    """
    runs.write(results, folder)
    if drawn := charts(results.figures):
        environment = Environment("charts")
        environment.make()
        environment.run("tests.benchmarks.charts", msgspec.json.encode(drawn).decode(), str(folder))
    (folder / "RESULTS.md").write_text(markdown(results))
    if readme is not None:
        readme.write_text(with_costs(readme.read_text(), results))


def charts(figures: Sequence[Figure]) -> list[Chart]:
    """What is drawn of what was measured: turns by history, and turns a second by sessions."""
    history, at_once = "events in the session", "sessions at once"
    drawn = (
        Chart("turns", "A turn, by the length of the session's history", history, "ms a turn", _lines(figures, turns.NAME)),
        Chart("throughput", "Turns a second, by sessions at once", at_once, "turns/s", _lines(figures, throughput.NAME)),
    )
    return [chart for chart in drawn if any(chart.lines.values())]


def _lines(figures: Sequence[Figure], benchmark: str) -> dict[str, list[tuple[float, float]]]:
    """All contestants of a benchmark, each with its values by what they depend on."""
    made: dict[str, list[tuple[float, float]]] = {OURS: []}
    for figure in figures:
        if figure.benchmark == benchmark and figure.at is not None:
            made[OURS].append((figure.at, figure.value))
            others = dict(figure.peers)
            if figure.reference is not None:
                others = {figure.reference_name: figure.reference} | others
            for name, value in others.items():
                made.setdefault(name, []).append((figure.at, value))
    return made


def markdown(results: Results) -> str:
    """RESULTS.md."""
    return "\n".join(
        [
            "# Results",
            "",
            f"Written by `{results.command}` on {results.began}, charts included. The figures are in `results.json`.",
            "",
            *([_BUSY, ""] if results.was_busy else []),
            *_table(("", ""), _run(results)),
            "",
            "## Beside the floor and the peers",
            "",
            *[f"![{chart.title}]({chart.name}.svg)" for chart in charts(results.figures)],
            "",
            *_table(*_compared([figure for figure in results.figures if figure.peers], peer_names(results.figures))),
            "",
            "## Everything",
            "",
            *_table(("benchmark", "figure", OURS, "reference", "ratio"), (_row(figure) for figure in results.figures)),
            "",
            _METHOD,
        ]
    )


def with_costs(readme: str, results: Results) -> str:
    """README with the table of these results.

    Raises:
        ValueError: it has no place for the table.
    """
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"there is no place for the table of costs: {_BEGIN} … {_END}")
    busy = [_BUSY, ""] if results.was_busy else []
    return "\n".join([f"{before}{_BEGIN}", "", *busy, *_costs(results), "", f"{_END}{after}"])


def _costs(results: Results) -> list[str]:
    found = {(figure.benchmark, figure.name): figure for figure in results.figures}
    peers = peer_names(results.figures)
    rows = []
    for key, label in _COSTS.items():
        if key in found:
            figure = found[key]
            unit = "" if "/s" in figure.unit else f" {figure.unit}"
            floor = rounded(figure.reference) if figure.reference is not None and figure.reference_name == "floor" else ""
            others = [rounded(figure.peers[peer]) if peer in figure.peers else "" for peer in peers]
            rows.append((label, f"{rounded(figure.value)}{unit}", floor, *others))
    return _table((f"{results.began.partition(' ')[0]}, {results.machine}", OURS, "floor", *peers), rows)


def _run(results: Results) -> list[tuple[str, str]]:
    total_s = sum(results.took_s.values())
    return [
        ("machine", results.machine),
        ("load when it began", " ".join(f"{each:.2f}" for each in results.load)),
        ("versions", ", ".join(f"{name} {version}" for name, version in results.versions.items())),
        *([("pace", _pace(results.pace_ms.values()))] if results.pace_ms else []),
        ("took", f"{total_s / 60:.1f} min: {', '.join(f'{name} {taken:.0f} s' for name, taken in results.took_s.items())}"),
    ]


def _pace(measured_ms: Collection[float]) -> str:
    least, most = min(measured_ms), max(measured_ms)
    return f"the work of `pace.py` took {least:.0f} to {most:.0f} ms before the parts, in the median {median(measured_ms):.0f} ms"


def _compared(figures: Sequence[Figure], peers: Sequence[str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows = []
    for figure in figures:
        floor = "" if figure.reference is None else f"{rounded(figure.reference)} ({figure.ratio:.2f})"
        ours = f"**{rounded(figure.value)}**"
        rows.append((figure.benchmark, figure.name, figure.unit, ours, floor, *(peer_cell(figure, peer) for peer in peers)))
    return ("benchmark", "figure", "unit", OURS, f"floor ({OURS} against it)", *peers), rows


def _row(figure: Figure) -> tuple[str, ...]:
    reference = "" if figure.reference is None else f"{rounded(figure.reference)} ({figure.reference_name})"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    return figure.benchmark, figure.name, f"{rounded(figure.value)} {figure.unit}", reference, ratio


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(heads), _line(["---"] * len(heads)), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    write(runs.read(), readme=README)
