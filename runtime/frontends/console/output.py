"""How the command prints: tables on a terminal, and lines with tabs for other programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from actors.errors import RaygroveError

if TYPE_CHECKING:
    from rich.console import Console


MAX_WIDTH = 10_000
"""Characters of the widest line of a table."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on a terminal, and lines with tabs for other programs. Both begin with the names of the columns.

    Only texts are folded. Whatever else is too wide for the terminal goes on in its next line: an id that was cut is of no use.
    """
    if not is_terminal():
        for row in (columns, *rows):
            print("\t".join(" ".join(cell.split()) for cell in row))
        return
    # Imported here: it takes a tenth of a second.
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column != "text")
    for row in rows:
        table.add_row(*map(Text, row))
    console = new_console()
    if "text" not in columns:
        console.width = max(console.width, Measurement.get(console, console.options.update(max_width=MAX_WIDTH), table).maximum)
    console.print(table)


def print_json(values: Iterable[object]) -> None:
    """Print values as JSON, one a line."""
    for value in values:
        print(msgspec.json.encode(value).decode(), flush=True)


def is_terminal() -> bool:
    """True when a person reads the standard output."""
    return sys.stdout.isatty()


def new_console() -> Console:
    """The terminal of this process."""
    from rich.console import Console

    return Console()


def print_error(error: RaygroveError) -> None:
    """Print an error on the standard error output, in one line, below the traceback of users' code if there is one."""
    if error.remote_traceback:
        print(error.remote_traceback, file=sys.stderr)
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)


def duration(seconds: float) -> str:
    """A time span in its two largest units, such as `3m 20s`."""
    left = max(0, round(seconds))
    for unit, size, smaller, rest in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if left >= size:
            return f"{left // size}{unit} {left % size // rest}{smaller}"
    return f"{left}s"
