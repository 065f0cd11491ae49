"""Make the table anew: `python -m tests.simulation.mutants`, or the rows of some mutants: `… NAME NAME`."""

from __future__ import annotations

import argparse

from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.table import PATH, row, rows, text


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="those of some mutants; by default all")
    table = dict(rows())
    for name in parser.parse_args().names or MUTANTS:
        table[name] = row(name, table[name].test if name in table else "")
        PATH.write_text(text(table))
        print(name, *table[name], flush=True)


if __name__ == "__main__":
    main()
