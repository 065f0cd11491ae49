"""The processes of this machine, as far as the system shows them: on Linux. Elsewhere there are none to be seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

SHOWN = 200
"""How many characters of a command are shown."""


@dataclass(frozen=True)
class Process:
    """A process.

    Attributes:
        parent_pid: that of the process that started it, or of the one that took it over.
        started: when it was started, in ticks since the system was: ids are used again.
        command: how it was started.
    """

    pid: int
    parent_pid: int
    started: int
    command: str

    @property
    def key(self) -> tuple[int, int]:
        """Names the process, and no later one with its id."""
        return self.pid, self.started

    def __str__(self) -> str:
        return f"{self.pid} ({self.command[:SHOWN]})"


def processes() -> Iterator[Process]:
    """All that run. Those that have ended and wait for their parents are left out."""
    if not PROC.is_dir():
        return
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            # It may end meanwhile.
            with suppress(OSError, ValueError, IndexError):
                # Its name is in brackets, and may have any characters.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if fields[0] not in ("Z", "X"):
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    yield Process(int(folder.name), int(fields[1]), int(fields[19]), command)


def children(pid: int) -> list[Process]:
    """The processes that a process has started and that still run."""
    return [process for process in processes() if process.parent_pid == pid]
