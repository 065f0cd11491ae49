"""How far a map is: a bar in a terminal, a line in a notebook, and lines in a log if they are asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from runtime.driver.turns.turn import is_notebook

LINE_EVERY_S = 10.0
"""Time between two lines where there is neither a terminal nor a notebook."""

NOTEBOOK_EVERY_S = 0.25
"""Time between two changes of a notebook's line."""


@dataclass
class Counts:
    """What has become of the inputs so far.

    Attributes:
        total: how many inputs there are; None when that is not known.
        done: inputs with a result.
        failed: of these, those with an error.
        repeated: of these, those that an earlier run has answered.
    """

    name: str
    total: int | None
    done: int = 0
    failed: int = 0
    repeated: int = 0
    began_s: float = field(default_factory=time.monotonic)

    def rate(self) -> float:
        """Inputs a second that this run has answered."""
        return (self.done - self.repeated) / max(time.monotonic() - self.began_s, 1e-9)

    def left_s(self) -> float | None:
        """Seconds until all is done, at the rate so far; None when that is not known."""
        if self.total is None or self.done == self.repeated:
            return None
        return max(self.total - self.done, 0) / self.rate()

    def line(self) -> str:
        """All of it in one line."""
        of = f"/{self.total:,}" if self.total is not None else ""
        share = f" {100 * self.done / self.total:.0f} %" if self.total else ""
        parts = [f"{self.name}: {self.done:,}{of}{share}", f"{self.rate():,.1f}/s", f"{self.failed:,} failed"]
        if self.repeated:
            parts.append(f"{self.repeated:,} from before")
        left_s = self.left_s()
        if left_s is not None and self.done != self.total:
            parts.append(f"{duration(left_s)} left")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time for people: `42 s`, `3:07 min`, `2:15 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3_600}:{whole % 3_600 // 60:02} h"


class Display(Protocol):
    """Shows how far a map is."""

    def update(self, counts: Counts) -> None:
        """Something has changed."""

    def end_display(self, counts: Counts) -> None:
        """The map has ended, or was left."""


def display(wanted: bool | None, counts: Counts) -> Display | None:
    """The display of a map's progress here; None for none.

    Args:
        wanted: None: only in a terminal and in a notebook.
    """
    if wanted is False:
        return None
    show = _notebook()
    if show is not None:
        return NotebookLine(show)
    if sys.stderr.isatty():
        return Bar(counts)
    return Lines() if wanted else None


class Lines:
    """Writes a line now and then."""

    def __init__(self) -> None:
        self._next_s = time.monotonic() + LINE_EVERY_S

    def update(self, counts: Counts) -> None:
        """Write a line if it is time."""
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + LINE_EVERY_S
            print(counts.line(), file=sys.stderr, flush=True)

    def end_display(self, counts: Counts) -> None:
        """Write the last line."""
        print(counts.line(), file=sys.stderr, flush=True)


Show = Callable[..., Any]
"""IPython's `display`."""


def _notebook() -> Show | None:
    """IPython's `display` in a notebook, else None."""
    if not is_notebook():
        return None
    show: Show = sys.modules["IPython.display"].display
    return show


class NotebookLine:
    """A line below a notebook's cell, which is replaced as the map goes on."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._handle: Any = None
        self._next_s = 0.0

    def update(self, counts: Counts) -> None:
        """Replace the line if it is time."""
        if time.monotonic() >= self._next_s:
            self._put(counts)

    def end_display(self, counts: Counts) -> None:
        """Put the last line."""
        self._put(counts)

    def _put(self, counts: Counts) -> None:
        self._next_s = time.monotonic() + NOTEBOOK_EVERY_S
        data = {"text/plain": counts.line()}
        if self._handle is None:
            self._handle = self._show(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class Bar:
    """A bar in the last line of a terminal. What the program prints meanwhile stands above it."""

    def __init__(self, counts: Counts) -> None:
        # Imported here: most programs show no bar.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(BarColumn(), TextColumn("{task.description}", markup=False), console=Console(stderr=True))
        self._task = self._progress.add_task(counts.line(), total=counts.total)
        self._progress.start()

    def update(self, counts: Counts) -> None:
        """Set the bar, which is drawn ten times a second."""
        self._progress.update(self._task, completed=counts.done, description=counts.line(), refresh=False)

    def end_display(self, counts: Counts) -> None:
        """Draw it for the last time."""
        self.update(counts)
        self._progress.stop()
