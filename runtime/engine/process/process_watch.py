"""This process: its memory, and a thread that notices an event loop which stands still, and memory that grows without end.

Also whether SIGTERM has told the program to end: what it leaves then, it does not mean to cancel.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import ClassVar

from actors.errors.tracebacks import is_own_file

RESERVE = 0.03
"""Ray ends processes above a share of a node's memory, and those first that it may start again: Runner and Session actor. So the
process that has taken the memory ends this much of the node's memory earlier."""

LARGE = 0.1
"""Share of a node's memory above which a process counts as the one that has taken it."""

LOOK_S = 0.25
"""Time between two looks: what fills memory takes some hundred MiB meanwhile."""

BEAT_S = 1.0
"""Time between two beats of the event loop."""

STILL_S = 3.0
"""After so long without a beat the event loop stands still. It is counted in looks: a process that was stopped makes none."""

FRAMES = 12
"""Frames of its stack in the warning: the innermost ones."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

LOOK_AGAIN_S = 1.0
"""How long a process takes its memory to be what it was: thousands of agents in it may be asked at once."""

THRESHOLD = "RAY_memory_usage_threshold"
"""The variable with the share of a node's memory above which Ray ends processes."""


class ProcessWatch:
    """Watches the running event loop, and the memory of its process, until `stop`.

    Args:
        on_still: called in the watching thread, once for each time that the loop stands still, with what it runs and where.
        on_too_large: called there when the process is to end, with the reason; None: memory is not looked at.
        memory_limit: bytes that the process may use; 0: as many as there are.
    """

    def __init__(
        self, on_still: Callable[[str], None], on_too_large: Callable[[str], None] | None = None, memory_limit: int = 0
    ) -> None:
        self._on_still = on_still
        self._on_too_large = on_too_large
        self._memory_limit = memory_limit
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._beat_s = time.monotonic()
        self._is_asked = False
        self._looks = 0
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="raygrove-watch", daemon=True).start()

    def stop(self) -> None:
        """Watch no longer."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            if self._on_too_large is not None and (why := self._too_large()):
                self._on_too_large(why)
                return
            if not self._look_at_loop():
                return

    def _look_at_loop(self) -> bool:
        """Ask the loop for a beat, or tell that none comes. False when the loop is closed."""
        if self._is_asked:
            self._looks += 1
            if self._looks == int(STILL_S / LOOK_S):
                self._on_still(self._standing())
        elif time.monotonic() - self._beat_s >= BEAT_S:
            self._is_asked, self._looks = True, 0
            try:
                self._loop.call_soon_threadsafe(self._beat)
            except RuntimeError:
                return False
        return True

    def _beat(self) -> None:
        self._beat_s = time.monotonic()
        self._is_asked = False

    def _standing(self) -> str:
        """A sentence about the task that has the loop, and the innermost frames of its stack."""
        task = asyncio.current_task(self._loop)
        what = task.get_name() if task is not None else "a callback"
        frame = sys._current_frames().get(self._loop_thread)
        stack = traceback.extract_stack(frame) if frame is not None else []
        # What leads to the code of the program says nothing.
        own = [index for index, each in enumerate(stack) if is_own_file(each.filename)]
        inner = stack[own[-1] + 1 :] if own and own[-1] + 1 < len(stack) else stack
        lines = "".join(traceback.format_list(inner[-FRAMES:]))
        return (
            f"the event loop of this process has stood still for {STILL_S:g} s, and no other run in it goes on: {what} does not "
            f"let go of it. A plain function, or asyncio.to_thread, would run in a thread of its own.\n{lines}"
        )

    def _too_large(self) -> str:
        used, total = _node_memory()
        threshold = float(os.environ.get(THRESHOLD) or 0.95)
        return why_too_large(memory_of(os.getpid()) or 0, limit=self._memory_limit, used=used, total=total, threshold=threshold)


def _node_memory() -> tuple[int, int]:
    """Bytes of the node that are used, and all of them, by its container's limits where it has some; zeros if unknown."""
    try:
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        sizes = {line[0]: int(line[1]) * 1024 for line in lines if len(line) > 1}
        total = sizes["MemTotal:"]
        used = total - sizes["MemAvailable:"]
    except (OSError, KeyError, ValueError):
        return 0, 0
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        stat = dict(line.split() for line in Path("/sys/fs/cgroup/memory.stat").read_text().splitlines())
        current = int(Path("/sys/fs/cgroup/memory.current").read_text()) - int(stat.get("inactive_file", 0))
    except (OSError, ValueError):
        # There is no container, or it has no limit.
        return used, total
    return (current, limit) if limit < total else (used, total)


def why_too_large(own: int, *, limit: int, used: int, total: int, threshold: float) -> str:
    """Why a process has to end itself; "": it need not.

    Args:
        own: bytes that only it uses; 0: unknown.
        limit: bytes that its agents' placement gives it; 0: as many as it likes.
        used, total: bytes of the node; 0: unknown.
        threshold: the share above which Ray ends processes.
    """
    if limit and own > limit:
        return f"it uses {_mib(own)}, more than the {_mib(limit)} of its agents' Placement(memory=…)"
    if total and used > total * (threshold - RESERVE) and own > total * LARGE:
        return f"it uses {_mib(own)}, and {_mib(used)} of the node's {_mib(total)} are used: Ray would end other processes next"
    return ""


def _mib(number: int) -> str:
    return f"{number / 2**20:,.0f} MiB"


def memory_of(pid: int) -> int | None:
    """Bytes of memory that a process of this machine has for itself; None where that cannot be told."""
    try:
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    except (OSError, ValueError):
        return None
    return (resident - shared) * PAGE_BYTES


class OwnProcess:
    """This process: where it is, and its memory.

    Args:
        node: the address of its machine; "" for none.
    """

    def __init__(self, node: str = "") -> None:
        self._node = node
        self._memory_bytes = 0
        self._looked_s = -LOOK_AGAIN_S

    def __call__(self) -> tuple[str, int]:
        """The address of its machine, and bytes of memory; 0 where that cannot be told."""
        if time.monotonic() - self._looked_s >= LOOK_AGAIN_S:
            self._memory_bytes, self._looked_s = memory_of(os.getpid()) or 0, time.monotonic()
        return self._node, self._memory_bytes


class ToldToEnd:
    """SIGTERM in a program that uses Ray: Ray's handler raises SystemExit, where the program would be killed without it.

    Attributes:
        by_signal: the program unwinds since it got SIGTERM.
    """

    by_signal: ClassVar[bool] = False

    @classmethod
    @contextmanager
    def noting(cls) -> Iterator[None]:
        """Have a handler that is set within the block note the signal as well."""
        before = signal.getsignal(signal.SIGTERM)
        yield
        handler = signal.getsignal(signal.SIGTERM)
        if handler is not before and callable(handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, cls._noting(handler))

    @classmethod
    def _noting(cls, handler: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], object]:
        def note(number: int, frame: FrameType | None) -> None:
            cls.by_signal = True
            handler(number, frame)

        return note
