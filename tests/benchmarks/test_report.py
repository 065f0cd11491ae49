"""Reports from figures: the peers beside ours, RESULTS.md, README's table, the charts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from tests.benchmarks import comparison, report, results, throughput, turns
from tests.benchmarks.__main__ import Run, measured
from tests.benchmarks.figures import Figure, peer_names, rounded, table
from tests.benchmarks.peers.peer import ANSWER, Report, Request, measure
from tests.benchmarks.plan import FULL, QUICK, TINY

ROOT = Path(__file__).parents[2]


class RecordingPeer:
    """A peer that writes its request into a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def turn(self, session: str) -> str:
        with (self._folder / session).open("a") as file:
            file.write("x")
        return ANSWER

    async def store_turns(self, session: str, turns: int) -> None:
        for _ in range(turns):
            await self.turn(session)

    write_history = store_turns


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[RecordingPeer]:
    yield RecordingPeer(folder)


def test_a_peer_is_measured_at_every_history_and_number_of_sessions() -> None:
    request = Request(histories=[1, 5], turns=3, sessions=[1, 4], load=8, stored=7)
    made = asyncio.run(measure("msgspec", opened, request))
    assert set(made.turn_ms) == {1, 5}
    assert set(made.rate) == {1, 4}
    assert (made.stored, made.stored_bytes) == (7, 7)
    assert all(value > 0 for value in (*made.turn_ms.values(), *made.rate.values()))


@pytest.mark.parametrize("plan", [TINY, QUICK, FULL])
def test_peers_are_asked_for_what_there_are_figures_of(plan: object) -> None:
    assert isinstance(plan, type(FULL))
    request = comparison.request(plan)
    assert {turns.EVENTS_A_TURN * history for history in request.histories} <= set(plan.histories)
    assert list(request.sessions) == list(plan.concurrency)


def test_what_peers_report_stands_beside_our_own_figures() -> None:
    request = comparison.request(TINY)
    told = Report(
        version="1",
        turn_ms=dict.fromkeys(request.histories, 10.0),
        rate=dict.fromkeys(request.sessions, 5.0),
        stored=request.stored,
        stored_bytes=9,
    )
    figures = comparison.beside([*measured(turns.NAME, TINY), *measured(throughput.NAME, TINY)], {"peer": told})
    compared = [figure for figure in figures if figure.peers]
    assert [figure.unit for figure in compared] == ["ms"] * len(request.histories) + ["turns/s"] * len(request.sessions)
    assert "peer" in [column.header for column in table(figures, "").columns]


def test_ratios_say_how_many_times_worse_a_peer_is() -> None:
    slow = Figure(benchmark="b", name="n", value=5, unit="ms", peers={"peer": 20})
    few = Figure(benchmark="b", name="n", value=400, unit="turns/s", peers={"peer": 100})
    assert (slow.peer_ratio("peer"), few.peer_ratio("peer")) == (4, 4)


def test_charts_have_a_line_for_everybody_who_was_measured() -> None:
    figure = Figure(benchmark="turn", name="n", value=5, unit="ms", reference=4, at=10, peers={"peer": 20})
    alone = msgspec.structs.replace(figure, at=100, peers={})
    unrelated = msgspec.structs.replace(figure, at=None)
    (drawn,) = report.charts([figure, alone, unrelated])
    assert drawn.lines == {"raygrove": [(10, 5), (100, 5)], "floor": [(10, 4), (100, 4)], "peer": [(10, 20)]}


def test_what_is_checked_in_is_what_the_results_say() -> None:
    checked_in = results.read()
    assert (results.FOLDER / "RESULTS.md").read_text() == report.markdown(checked_in)
    readme = (ROOT / report.README).read_text()
    assert report.with_costs(readme, checked_in) == readme


def test_readme_shows_three_figures_that_are_all_measured_beside_floor_and_peers() -> None:
    checked_in = results.read()
    readme = report.with_costs("<!-- costs: made by make bench --><!-- end of costs -->", checked_in)
    head, _, *rows = [line.strip("| ").split(" | ") for line in readme.splitlines() if line.startswith("|")]
    assert head[1:] == ["raygrove", "floor", *peer_names(checked_in.figures)]
    assert len(rows) == 3
    measured = {(figure.benchmark, figure.name): figure for figure in checked_in.figures}
    figure = measured["throughput", "256 sessions: rate"]
    shown = next(row for row in rows if row[0].startswith("turns a second"))
    assert figure.reference is not None
    assert shown[1:] == [*map(rounded, (figure.value, figure.reference, *figure.peers.values()))]


@pytest.mark.parametrize(("load", "told"), [(0.4, False), (3.0, True)])
def test_figures_of_a_busy_machine_are_not_to_be_taken(load: float, told: bool) -> None:
    run = msgspec.structs.replace(results.begun("make bench"), cpus=2, load=[load, 0.0, 0.0])
    assert ("was busy with other things" in report.markdown(run)) is told


def test_the_pace_of_the_machine_is_told_with_the_figures() -> None:
    run = Run(Console(quiet=True), results.begun("make bench"))
    assert "| pace |" not in report.markdown(run.results)
    for name in ("turn", "burst"):
        run.add(name, list)
    assert list(run.results.pace_ms) == ["turn", "burst"]
    assert all(each > 0 for each in run.results.pace_ms.values())
    told = msgspec.structs.replace(run.results, pace_ms={"turn": 20.2, "burst": 40.4, "map": 22})
    assert "| pace | the work of `pace.py` took 20 to 40 ms before the parts, in the median 22 ms |" in report.markdown(told)


def test_a_readme_without_a_place_for_the_costs_is_told() -> None:
    with pytest.raises(ValueError, match="no place for the table"):
        report.with_costs("# raygrove\n", results.begun("make bench"))
