"""Defects that are put into the code are noticed: by seeds of the simulation, or by the test that the table names."""

from __future__ import annotations

import pytest

from tests.mutants.live import putting_in
from tests.mutants.mutant import ROOT, StaleMutantError, read_mutants
from tests.simulation.mutants.table import PATH, rows, text
from tests.simulation.mutants.worlds import FOLDER, MUTANTS, ONE_IN, WORLDS, is_found, plays_right

ROWS = rows()

TRIES = 8
"""So many times a test is run that finds a defect by random steps, each time with others."""


def _sampled(name: str) -> object:
    one_in = ONE_IN.get(MUTANTS[name].world, 10)
    return pytest.param(name, marks=[pytest.mark.sampled(one_in or 1, full=10), *([] if one_in else [pytest.mark.full])])


def test_what_each_defect_changes_is_in_the_code() -> None:
    stale = []
    for mutant, _ in MUTANTS.values():
        try:
            mutant.texts()
        except (StaleMutantError, SyntaxError) as error:
            stale.append(str(error))
    assert not stale, "\n".join(stale)


def test_the_table_says_of_each_defect_what_notices_it() -> None:
    assert PATH.read_text() == text(ROWS)
    assert list(ROWS) == list(MUTANTS)
    assert [name for name, row in ROWS.items() if not row.seeds and not row.test] == []


def test_each_file_has_a_world_and_each_defect_a_name_of_its_own() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == {*WORLDS}
    assert sum(len(read_mutants(path)) for path in FOLDER.glob("*.toml")) == len(MUTANTS)


@pytest.mark.parametrize("name", [_sampled(name) for name, row in ROWS.items() if row.seeds])
def test_a_seed_finds_it(name: str) -> None:
    # Where the seeds that the table knows find it no more, since the code has changed, another one does.
    seeds = range(WORLDS[MUTANTS[name].world].seeds)
    seed = next((seed for seed in (*ROWS[name].seeds, *seeds) if is_found(name, seed)), None)
    assert seed is not None
    assert plays_right(name, seed)


@pytest.mark.full
@pytest.mark.sampled(full=4)
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.test])
def test_the_test_that_the_table_names_fails_with_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Options of this run, such as where it reports, are not those of the runs within.
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # The plugin of the project is imported already, so assertions are not rewritten once more.
    # Some defects make a test wait in vain.
    asked = ["-q", "--assert=plain", "-p", "no:cacheprovider", "-o", "timeout=15", str(ROOT / ROWS[name].test)]
    with putting_in(MUTANTS[name].mutant):
        # A test of random steps may need more of them than it tries at once.
        ended = next((code for seed in range(TRIES) if (code := pytest.main([*asked, f"--hypothesis-seed={seed}"]))), None)
    assert ended == pytest.ExitCode.TESTS_FAILED
