"""What processes use, read from the kernel."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from rich.table import Table

from runtime import Runtime

MB = 1_000_000

_PROCESS = 2
"""With the complement of a process id above it, this is the kernel's name of the process's CPU clock: clock_getcpuclockid(3)."""

_PRIVATE = re.compile(rb"^Private_(?:Clean|Dirty):\s+(\d+) kB", re.MULTILINE)

_LIBC = ctypes.CDLL(None)

HAS_HELD = hasattr(_LIBC, "mallinfo2")
"""True where the C library says what it has given out: mallinfo(3). glibc does from 2.33 on."""

RAY_PROGRAMS = {
    "raylet": "/raylet/raylet",
    "control service": "/gcs/gcs_server",
    "log monitor": "/_private/log_monitor.py",
    "dashboard's agent": "ray::DashboardAgent",
    "environments' agent": "ray::RuntimeEnvAgent",
    "worker_forks": "/worker_forks.py",
}
"""Processes of a Ray beside its workers, and how the names of their programs end."""


class _Mallinfo(ctypes.Structure):
    """What mallinfo2 returns."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    )


if HAS_HELD:
    _LIBC.mallinfo2.restype = _Mallinfo


class Use(msgspec.Struct, frozen=True):
    """What one process uses.

    Attributes:
        memory: bytes that are its own (USS). Shared pages are left out: their share changes when other processes
            come and go.
        files: open file descriptors.
        threads: of them.
    """

    memory: int
    files: int
    threads: int


class Sample(msgspec.Struct, frozen=True):
    """What every process of a deployment uses after so many turns, by the names of `pids_of`."""

    turns: int
    of: Mapping[str, Use]


def use_of(pid: int) -> Use:
    """What a process uses now."""
    proc = Path("/proc") / str(pid)
    private = _PRIVATE.findall((proc / "smaps_rollup").read_bytes())
    return Use(sum(map(int, private)) * 1024, len(os.listdir(proc / "fd")), len(os.listdir(proc / "task")))


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has had, threads included that have ended: what `stat` says counts in steps of 10 ms."""
    return time.clock_gettime(~pid << 3 | _PROCESS)


async def pids_of(rt: Runtime) -> dict[str, int]:
    """This process, which is `driver`, and those of a deployment's actors, each once: the local engine has none of its own."""
    seen = await rt.aio.statistics()
    own = os.getpid()
    actors = {"Session actor": seen.session.pid, "Runner": seen.runner.pid}
    actors |= {f"agent {name}": agent.pid for name, agent in seen.agents.items()}
    return {"driver": own} | {who: pid for who, pid in actors.items() if pid != own}


def ray_pids() -> dict[str, int]:
    """The processes of a local Ray that this process has started, by their programs, without the workers."""
    found: dict[str, int] = {}
    parents = {os.getpid()}
    # A parent has the lower number unless the numbers have begun anew: once more sees to that.
    for pid in sorted(int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()) * 2:
        with suppress(OSError, IndexError):
            if int((Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[1]) not in parents:
                continue
            parents.add(pid)
            words = (Path("/proc") / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if name := next((name for name, part in RAY_PROGRAMS.items() if any(word.endswith(part) for word in words)), ""):
                found[name] = pid
    return found


async def sample(rt: Runtime, turns: int) -> Sample:
    """Look at every process of a deployment."""
    uses: dict[str, Use] = {}
    for who, pid in sorted((await pids_of(rt)).items()):
        # One that was killed meanwhile is in the next sample, and one that does not answer has no number.
        with suppress(OSError):
            if pid:
                uses[who] = use_of(pid)
    return Sample(turns, uses)


def by_kind(seen: Sample, others: Mapping[str, int]) -> Sample:
    """The same, with the most that any process of agents uses in the place of each of them, and the use of other processes."""
    agents = [use for name, use in seen.of.items() if name.startswith("agent ")]
    of = {name: use for name, use in seen.of.items() if not name.startswith("agent ")}
    if agents:
        most = (max(getattr(use, name) for use in agents) for name in Use.__struct_fields__)
        of["an agents' process"] = Use(*most)
    for name, pid in others.items():
        with suppress(OSError):
            of[name] = use_of(pid)
    return Sample(seen.turns, of)


def grown(samples: Sequence[Sample], since: int, until: int) -> dict[str, int]:
    """By how many bytes each process has grown, from the mean of the samples after `since` turns to that from `until` on.

    The first mean is over a fifth of the turns in between: earlier turns warm up.
    Processes that are not in all of them, because they came or went, are left out.
    """
    before = [each for each in samples if since <= each.turns <= since + (until - since) // 5]
    after = [each for each in samples if each.turns >= until]
    names = set.intersection(*(set(each.of) for each in (*before, *after)))
    return {name: _mean(after, name) - _mean(before, name) for name in sorted(names)}


def halves(samples: Sequence[Sample]) -> tuple[Sample, Sample]:
    """The medians of what each process uses, in the second and in the last quarter: the first one warms up."""
    quarter = len(samples) // 4
    return _median(samples[quarter : 2 * quarter]), _median(samples[-quarter:])


def _median(samples: Sequence[Sample]) -> Sample:
    names = sorted(set().union(*(each.of for each in samples)))
    uses = {name: [each.of[name] for each in samples if name in each.of] for name in names}
    fields = Use.__struct_fields__
    return Sample(
        samples[-1].turns,
        {name: Use(*(sorted(getattr(use, field) for use in of)[len(of) // 2] for field in fields)) for name, of in uses.items()},
    )


def _mean(samples: Sequence[Sample], name: str) -> int:
    return sum(each.of[name].memory for each in samples) // len(samples)


def table(samples: Sequence[Sample], columns: int = 8) -> Table:
    """Memory in MB, open files and threads of every process, over the turns."""
    step = max(1, -(-len(samples) // columns))
    shown = [*samples[::step], *([samples[-1]] if (len(samples) - 1) % step else [])]
    made = Table("process", title="MB (open files, threads) after so many turns")
    for each in shown:
        made.add_column(f"{each.turns:,}", justify="right")
    for name in samples[-1].of:
        uses = (each.of.get(name) for each in shown)
        made.add_row(name, *("" if use is None else f"{use.memory / MB:.1f} ({use.files}, {use.threads})" for use in uses))
    return made


def held_here() -> int:
    """Bytes that this process holds of what its C library gives out: garbage is collected before.

    What is free is not among them. To the kernel it is the process's own all the same, and glibc cannot be asked to give all of
    it back: `malloc_trim` leaves the free end of every arena but the main one, up to 11 MB on a busy machine.
    """
    gc.collect()
    seen = _LIBC.mallinfo2()
    return int(seen.uordblks) + int(seen.hblkhd)
