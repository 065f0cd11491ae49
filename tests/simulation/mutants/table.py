"""The table of the mutants: which seeds of the test run find each, and which other tests do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.simulation.mutants import MUTANTS
from tests.simulation.simulate import PLANS, Case, case, check, reference, replacing, standing_by

SEEDS = 300
"""The seeds of the test run."""

ENOUGH = 3
"""Seeds that the table names of each mutant at most."""

PATH = Path(__file__).with_name("mutants.md")

REPLACING = frozenset({"writers_are_not_fenced"})
"""Mutants of what happens when a Session actor lives on beside its heir: their seeds are played so."""

STANDING_BY = frozenset({"terms_mean_nothing", "standbys_have_no_term", "terms_go_by_clocks_alone", "replaced_runners_live_on"})
"""Mutants of Runners that have a standby: their seeds are played with one."""

HEAD = f"""# What notices which defect

Each row is a defect that is put into the code (see the functions of these names), and what notices it: some of the seeds 0 to
{SEEDS - 1} of the simulation that fail with it, and not without it; or a test that does. `python -m tests.simulation.mutants`
looks for seeds anew, and `make chaos` plays all seeds with each defect that seeds find.

| defect | what it does | seeds that fail | test that fails |
|---|---|---|---|
"""


class Row(NamedTuple):
    """What notices one mutant.

    Attributes:
        seeds: some that fail with it.
        test: the id of a test that fails with it, "" if the seeds suffice.
    """

    seeds: Sequence[int]
    test: str


def rows() -> Mapping[str, Row]:
    """The table, by the mutants' names."""
    lines = PATH.read_text().removeprefix(HEAD).splitlines()
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line)
    return {
        name.strip("`"): Row([int(seed) for seed in seeds.split(", ") if seed], test.strip("`")) for name, _, seeds, test in cells
    }


def text(table: Mapping[str, Row]) -> str:
    """The table as its file has it."""
    return HEAD + "".join(_lines(table))


def _lines(table: Mapping[str, Row]) -> Iterator[str]:
    for name, mutant in MUTANTS.items():
        row = table.get(name, Row((), ""))
        does = (mutant.__doc__ or "").split("\n")[0].rstrip(".")
        test = f"`{row.test}`" if row.test else ""
        yield f"| `{name}` | {does} | {', '.join(map(str, row.seeds))} | {test} |\n"


def given(name: str, seed: int) -> Case:
    """The case of a seed in which a mutant is to be found."""
    if name in STANDING_BY:
        return standing_by(seed)
    return replacing(seed) if name in REPLACING else case(seed)


def is_found(name: str, seed: int) -> bool:
    """True if a seed fails with a mutant."""
    made, right = given(name, seed), reference(seed // PLANS)[1]
    if name in REPLACING and made == case(seed):
        return False
    with MUTANTS[name]():
        return bool(check(made, right)[0])


def row(name: str, test: str = "") -> Row:
    """Play seeds with a mutant until enough of them have failed."""
    seeds: list[int] = []
    for seed in range(SEEDS):
        if is_found(name, seed):
            seeds.append(seed)
        if len(seeds) == ENOUGH:
            break
    return Row(seeds, test)
