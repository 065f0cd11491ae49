"""Defects that are put into the code are noticed: by seeds of the simulation, or by the test that the table names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.table import PATH, SEEDS, given, is_found, rows, text
from tests.simulation.simulate import PLANS, check, reference

ROWS = rows()

TRIES = 8
"""So many times a test is run that finds a defect by random steps, each time with others."""

ROOT = Path(__file__).parents[2]


def test_the_table_says_of_each_defect_what_notices_it() -> None:
    assert PATH.read_text() == text(ROWS)
    assert list(ROWS) == list(MUTANTS)
    assert [name for name, row in ROWS.items() if not row.seeds and not row.test] == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.seeds])
def test_a_seed_finds_it(name: str) -> None:
    # Where the seeds that the table knows find it no more, since the code has changed, another one does.
    seed = next((seed for seed in (*ROWS[name].seeds, *range(SEEDS)) if is_found(name, seed)), None)
    assert seed is not None
    assert check(given(name, seed), reference(seed // PLANS)[1])[0] == []


@pytest.mark.full
@pytest.mark.sampled(2, rest="soak")
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.test])
def test_the_test_that_the_table_names_fails_with_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Options of this run, such as where it reports, are not those of the runs within.
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # The plugin of the project is imported already, so assertions are not rewritten once more.
    # Some defects make a test wait in vain.
    asked = ["-q", "--assert=plain", "-p", "no:cacheprovider", "-o", "timeout=15", str(ROOT / ROWS[name].test)]
    with MUTANTS[name]():
        # A test of random steps may need more of them than it tries at once.
        ended = next((code for seed in range(TRIES) if (code := pytest.main([*asked, f"--hypothesis-seed={seed}"]))), None)
    assert ended == pytest.ExitCode.TESTS_FAILED
