"""Follows what a command lists: prints each line again whenever it has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Annotated, NamedTuple

import typer

from runtime.frontends.console.output import print_json

EACH_S = 1.0
"""Seconds between two looks."""

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Print each line again when it has changed, until Ctrl-C.")]


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
            _print(columns, widths)
        while True:
            for line in lines:
                if json:
                    print_json([line.data])
                else:
                    _print(line.cells, widths)
            sleep(EACH_S)
            lines = changes.new()


def _print(cells: Sequence[str], widths: Sequence[int]) -> None:
    print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip(), flush=True)
