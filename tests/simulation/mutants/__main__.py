"""Make the table anew: `python -m tests.simulation.mutants`, or the rows of some mutants: `… NAME NAME`."""

from __future__ import annotations

import argparse
from functools import partial
from multiprocessing import get_context

from tests.simulation.mutants.table import PATH, Row, renewed, rows, text
from tests.simulation.mutants.worlds import MUTANTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of some mutants, or of worlds; by default all")
    parser.add_argument(
        "--anew", action="store_true", help="play all seeds until enough find a mutant, also where a test finds it"
    )
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    table = dict(rows())
    names = [name for name, placed in MUTANTS.items() if not given.names or {name, placed.world} & {*given.names}]
    work = [(name, table.get(name, Row())) for name in names]
    with get_context("spawn").Pool(given.processes) as pool:
        for name, row in pool.imap_unordered(partial(renewed, anew=given.anew), work):
            table[name] = row
            PATH.write_text(text(table))
            print(name, *row, flush=True)


if __name__ == "__main__":
    main()
