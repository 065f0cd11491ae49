"""The table of the mutants: which seeds find each, and which other tests do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.simulation.mutants.worlds import FOLDER, MUTANTS, WORLDS, is_found

ENOUGH = 3
"""Seeds that the table names of each mutant at most."""

PATH = FOLDER / "mutants.md"

HEAD = """# What notices which defect

Each row is a defect that is put into the code, by the change of text that the file of its world has under its name, and what
notices it: some of the seeds that fail with it, and not without it; or a test that does. `python -m tests.simulation.mutants`
plays these seeds again and looks for others where they find nothing any more, and `make chaos` plays all seeds with each defect
that seeds find.
"""


class Row(NamedTuple):
    """What notices one mutant.

    Attributes:
        seeds: some that fail with it.
        test: the id of a test that fails with it, "" if the seeds suffice.
    """

    seeds: Sequence[int] = ()
    test: str = ""


def rows() -> Mapping[str, Row]:
    """The table, by the mutants' names."""
    lines = [line for line in PATH.read_text().splitlines() if line.startswith("| `")]
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {
        name.strip("`"): Row([int(seed) for seed in seeds.split(", ") if seed], test.strip("`")) for name, _, seeds, test in cells
    }


def text(table: Mapping[str, Row]) -> str:
    """The table as its file has it."""
    return HEAD + "".join(f"\n## {world}\n\n{_part(table, world)}" for world in WORLDS)


def _part(table: Mapping[str, Row], world: str) -> str:
    head = "| defect | what it does | seeds that fail | test that fails |\n|---|---|---|---|\n"
    return head + "".join(_lines(table, world))


def _lines(table: Mapping[str, Row], world: str) -> Iterator[str]:
    for name, placed in MUTANTS.items():
        if placed.world == world:
            row = table.get(name, Row())
            test = f"`{row.test}`" if row.test else ""
            yield f"| `{name}` | {placed.mutant.what} | {', '.join(map(str, row.seeds))} | {test} |\n"


def renewed(named: tuple[str, Row], *, anew: bool) -> tuple[str, Row]:
    """A mutant's row, with seeds that find it now: those that it has, and others where none of them do.

    Args:
        anew: look for others also where a test alone finds it.
    """
    name, row = named
    seeds = [seed for seed in row.seeds if is_found(name, seed)]
    if anew or (not seeds and (row.seeds or not row.test)):
        for seed in range(WORLDS[MUTANTS[name].world].seeds):
            if len(seeds) >= ENOUGH:
                break
            if seed not in seeds and is_found(name, seed):
                seeds.append(seed)
    return name, Row(sorted(seeds), row.test)
