"""Processes that tests stop or kill, as the kernel sees them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.support.polling import until


def is_running(pid: int) -> bool:
    """False for a process that has ended, also when its parent has not noticed that yet."""
    return _state(Path(f"/proc/{pid}")) not in "ZX"


def processes_with(variable: str) -> dict[int, str]:
    """The commands of the processes that run with `NAME=value` in their environment, by id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes() and is_running(int(folder.name)):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def kill(*pids: int) -> None:
    """Kill the processes, without waiting for their ends. One may have ended since another was killed."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stop(pid: int) -> None:
    """Stop the process. Its threads stop one after the other, and one that still runs could reply: return when none does."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    until(lambda: all(_state(thread) == "T" for thread in threads.iterdir()))


def _state(folder: Path) -> str:
    """That of the process or thread which has this folder in /proc, as a letter of `proc(5)`: X for one that is gone."""
    try:
        return (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        # The second: it ended between opening the file and reading it.
        return "X"
