"""Every benchmark runs and says something: on the local engine with tiny counts, so that none can rot unseen."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import pytest

from tests.benchmarks import recovery, trees
from tests.benchmarks.__main__ import BENCHMARKS
from tests.benchmarks.figures import table
from tests.benchmarks.floor import CALLS, Floor, StaleFloorError, Wire
from tests.benchmarks.loop import tree
from tests.benchmarks.plan import TINY
from tests.benchmarks.recorded import record
from tests.benchmarks.workloads import LoadResult, run_load


# In the full set: what the benchmarks measure has tests of its own.
# What a loss costs can only be measured where processes can be killed.
@pytest.mark.full
@pytest.mark.sampled(full=8)
@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name != recovery.NAME])
def test_every_benchmark_gives_positive_figures(name: str) -> None:
    figures = BENCHMARKS[name](TINY)
    assert figures
    differences = ("hop", "memory of a session", "HTTP", "memory of a stream")
    assert all(figure.value > 0 for figure in figures if not figure.name.startswith(differences))
    assert table(figures, name).row_count == len(figures)


@pytest.mark.full
@pytest.mark.sampled(full=2)
@pytest.mark.parametrize("wire", get_args(Wire))
def test_a_floor_runs_turns_with_and_without_commits(wire: Wire, local_ray: str, tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        with Floor(folder, wire) as floor:
            floor.turn_sync()
        with Floor(folder, wire) as floor:
            assert asyncio.run(_load(floor)).rate > 0


async def _load(floor: Floor) -> LoadResult:
    made = await run_load(floor.turn, sessions=2, turns=6)
    await floor.leave()
    return made


def test_the_floor_makes_the_calls_of_a_turn_and_refuses_to_stand_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CALLS, "CloseTurn", 1.0)
    with pytest.raises(StaleFloorError, match="CloseTurn"), Floor():
        pass


def test_what_an_iteration_of_a_loop_sends_does_not_grow_with_the_log() -> None:
    recorded = record(tree(iterations=20))
    assert recorded.calls["Fetch"] == 1
    # State alone, and once a turn. The log, at the end of these turns some 800 events, would be over 100 kB.
    assert recorded.replies["Fetch"] < 200


def test_what_a_turn_sends_does_not_grow_with_the_tree() -> None:
    small, large = record(trees.tree(10)), record(trees.tree(2_000))
    assert large.calls == small.calls
    for sent in ("requests", "replies"):
        sizes = {name: (size, getattr(small, sent)[name]) for name, size in getattr(large, sent).items()}
        assert all(abs(one - other) < 50 for one, other in sizes.values()), sizes
