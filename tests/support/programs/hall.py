"""A tool that says that it was called, and waits until the test lets it go on, in whichever process it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from actors import ToolContext
from tests.support.polling import until

BACK_S = 5.0
"""How far the clock of the tool's process is set back, where it is."""


class Hall:
    """What a test and the tools of its agents share: files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._calls = folder / "calls"
        self._open = folder / "open"
        self._back = folder / "back"

    def wait(self, name: str, tool_context: ToolContext) -> str:
        """Wait until all may go on."""
        with self._calls.open("a") as calls:
            calls.write(f"{name} {tool_context.function_call_id}\n")
        until(self._open.exists)
        if self._back.exists() and not isinstance(time.time, partial):
            time.time = partial(_behind, time.time)
        return name

    def calls(self) -> list[tuple[str, str]]:
        """The name and the id of each call so far."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [(name, call_id) for name, _, call_id in (line.partition(" ") for line in lines)]

    def came(self, *names: str) -> None:
        """Return once there are calls of all these names."""
        until(lambda: set(names) <= {name for name, _ in self.calls()})

    def open(self) -> None:
        """Let all go on that wait, and all that come."""
        self._open.touch()

    def set_clocks_back(self) -> None:
        """Have the clock of each process set back in which a call goes on from now on."""
        self._back.touch()


def _behind(clock: Callable[[], float]) -> float:
    return clock() - BACK_S


def right_clock() -> None:
    """Undo that in this process."""
    if isinstance(time.time, partial):
        time.time = time.time.args[0]
