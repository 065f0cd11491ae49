"""Finds what closed Runtimes have left behind: actors, processes and threads."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType

from actors.errors import RaygroveError
from runtime.driver.runtime import Runtime
from runtime.driver.services.deployment import RuntimeStatistics
from runtime.settings import Settings

PATIENCE_S = 5.0
"""How long something may take to end after the Runtime was closed."""

POLL_S = 0.02
"""How often it is looked at meanwhile: the kernel tells nothing of processes that are no children."""

OTHERS = ("asyncio_*", "raygrove-watch", "raygrove-report", "pytest_timeout*")
"""Threads of event loops, which end with these, and of those who watch tests."""

HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Processes that Python starts once and keeps."""

STDLIB = sysconfig.get_path("stdlib")


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


class LeakCheck:
    """Compares what there is after Runtimes were closed with what there was before they were started.

    Args:
        may_stay: patterns of the names of threads that may stay, such as `grpc*`.
    """

    def __init__(self, may_stay: Sequence[str] = ()) -> None:
        self._may_stay = (*OTHERS, *may_stay)
        self._threads = set(threading.enumerate())
        self._children = {process.key for process in children(os.getpid())}
        self._noted: dict[Process, str] = {}
        self._apps: set[str] = set()
        self._namespace = ""

    def note(self, runtime: Runtime, settings: Settings) -> None:
        """Note the actors and processes of a Runtime that is about to be closed."""
        if runtime.address is not None:
            self._apps.add(runtime.app_name)
            self._namespace = settings.namespace
        # A closed Runtime, and one whose actors are lost, has no statistics.
        with suppress(RaygroveError):
            owners = dict(_owners(runtime.statistics()))
            owners.pop(os.getpid(), None)
            self._noted.update(with_descendants(owners))

    def check(self) -> None:
        """Wait until everything has ended. Raises AssertionError with what has not."""
        __tracebackhide__ = True
        until_s = time.monotonic() + PATIENCE_S
        while left := [*self._actors_left(), *self._processes_left(), *self._threads_left()]:
            if time.monotonic() > until_s:
                raise AssertionError(
                    "\n".join(
                        [f"left behind by closed Runtimes ({PATIENCE_S:g} s after their end):", *(f"  {each}" for each in left)]
                    )
                )
            time.sleep(POLL_S)

    def _actors_left(self) -> Iterator[str]:
        if self._apps:
            from runtime.cluster.transport.ray_actors import list_named_actors

            for _, name in list_named_actors(self._namespace):
                if name.partition("/")[0] in self._apps:
                    yield f"actor {name} in namespace {self._namespace!r}"

    def _processes_left(self) -> Iterator[str]:
        alive = {process.key: process for process in processes()}
        for process, owner in self._noted.items():
            if process.key in alive:
                yield f"process {process}: {owner}"
        for child in children(os.getpid()):
            if child.key not in self._children and not any(helper in child.command for helper in HELPERS):
                yield f"process {child}: a child of this one"

    def _threads_left(self) -> Iterator[str]:
        for thread in threading.enumerate():
            if thread not in self._threads and not any(fnmatch(thread.name, pattern) for pattern in self._may_stay):
                yield f"thread {thread.name}{_place(sys._current_frames().get(thread.ident or 0))}"


def _owners(statistics: RuntimeStatistics) -> Iterator[tuple[int, str]]:
    """The processes of a deployment, and what lives in each."""
    for core in (statistics.session, statistics.runner, statistics.limiter):
        if core is not None:
            yield from ((part.pid, f"of {part.actor}") for part in core.parts or (core,))
    yield from ((pid, "ready for agents") for pid in statistics.runner.spare_pids)
    for core, what in ((statistics.session, "Session actor"), (statistics.runner, "Runner")):
        yield from ((pid, f"standing by for the {what}") for pid in core.standby_pids)
    for name, process in statistics.processes.items():
        yield process.pid, f"of {name}, with {', '.join(process.agents)}"


def with_descendants(owners: dict[int, str]) -> Iterator[tuple[Process, str]]:
    """The processes themselves, and what they have started."""
    there = {process.pid: process for process in processes()}
    for process in there.values():
        parent: Process | None = process
        while parent is not None and parent.pid not in owners:
            parent = there.get(parent.parent_pid)
        if parent is not None:
            yield process, owners[parent.pid] if parent is process else f"started by the process {owners[parent.pid]}"


def _place(frame: FrameType | None) -> str:
    """Where a thread is: the innermost call outside of Python's own library."""
    if frame is None:
        return ""
    calls = traceback.extract_stack(frame)
    call = next((each for each in reversed(calls) if not each.filename.startswith(STDLIB)), calls[-1])
    return f", in {call.name} ({call.filename}:{call.lineno})"
