"""How the command prints: tables on a terminal, and lines with tabs for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on a terminal, and lines with tabs for other programs."""
    console = Console()
    if not console.is_terminal:
        for row in rows:
            print("\t".join(" ".join(cell.split()) for cell in row))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column != "text")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def print_error(error: Exception) -> None:
    """Print an error on the standard error output, in one line."""
    Console(stderr=True).print(Text(f"error: {error}"), soft_wrap=True)


def local_time(seconds: float) -> str:
    """A time in seconds since the epoch, as a date and a time of day here."""
    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds")
