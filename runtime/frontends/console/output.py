"""How commands print: tables on a terminal, lines with tabs for other programs, JSON, errors, and lists that are followed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from actors.errors import RaygroveError

if TYPE_CHECKING:
    from rich.console import Console


FAILED, WRONG_USAGE, PAUSED, AGAIN, INTERRUPTED = 1, 2, 3, 75, 130
"""Exit codes. PAUSED: a turn waits for a person; AGAIN: what was asked may be asked again; INTERRUPTED: by Ctrl-C."""

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


def print_result(result: object, *lines: str, json: bool) -> None:
    """Print a result: as JSON, or in these lines."""
    if json:
        print_json([result])
    else:
        print("\n".join(lines))


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


EACH_S = 1.0
"""Seconds between two looks."""


class WatchedLine(NamedTuple):
    """A line of a list.

    Attributes:
        key: tells what it is about.
        shown: it is printed again when this is another one.
    """

    key: Hashable
    shown: Hashable
    cells: Sequence[str]
    data: object


class Changes:
    """Knows which lines were printed.

    Args:
        look: makes all lines as they are now.
    """

    def __init__(self, look: Callable[[], Sequence[WatchedLine]]) -> None:
        self._look = look
        self._known: dict[Hashable, Hashable] = {}

    def new(self) -> list[WatchedLine]:
        """The lines that are new or have changed since the last call."""
        lines = self._look()
        found = [line for line in lines if line.key not in self._known or self._known[line.key] != line.shown]
        self._known = {line.key: line.shown for line in lines}
        return found


def follow(
    columns: Sequence[str],
    look: Callable[[], Sequence[WatchedLine]],
    *,
    json: bool,
    widths: Sequence[int] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Print lines as they change, until Ctrl-C. Raises what looking raises.

    Args:
        widths: of the columns, since a line is printed before the next one is known; by default those of the first lines.
    """
    changes = Changes(look)
    with suppress(KeyboardInterrupt):
        lines = changes.new()
        widths = widths or [max(map(len, cells)) for cells in zip(columns, *(line.cells for line in lines), strict=True)]
        if not json:
            _print_cells(columns, widths)
        while True:
            for line in lines:
                if json:
                    print_json([line.data])
                else:
                    _print_cells(line.cells, widths)
            sleep(EACH_S)
            lines = changes.new()


def _print_cells(cells: Sequence[str], widths: Sequence[int]) -> None:
    print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip(), flush=True)
