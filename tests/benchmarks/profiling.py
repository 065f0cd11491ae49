"""Where the CPU of one process goes under load: py-spy on the driver, the Session actor, the Runner or the agent."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec
from rich.table import Table

from runtime.driver.statistics import RuntimeStatistics
from tests.benchmarks.plan import Plan
from tests.benchmarks.throughput import talk
from tests.benchmarks.workloads import ROOT, instant_agent, run_load, runtime

Process = Literal["session", "runner", "agent", "driver"]
SESSIONS = 64
RATE = 200
"""Samples a second."""


class Profile(msgspec.Struct, frozen=True):
    """Samples of one process.

    Attributes:
        own: samples in which the function itself was running.
        cumulative: samples in which it was anywhere on the stack.
        total: all of them, which are those in which some Python code ran.
        possible: how many there would be of a process that never rests.
    """

    own: Mapping[str, int]
    cumulative: Mapping[str, int]
    total: int
    possible: int


def profile(plan: Plan, process: Process, seconds: int) -> Profile:
    """Sample a process while 64 sessions talk. Needs py-spy on the PATH."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_profile(plan, process, seconds, Path(folder)))


async def _profile(plan: Plan, process: Process, seconds: int, folder: Path) -> Profile:
    stacks = folder / "stacks"
    async with runtime(plan, instant_agent(), folder) as rt:
        turn = talk(rt)
        await run_load(turn, sessions=SESSIONS, turns=4 * SESSIONS)
        pid = _pid(await rt.aio.statistics(), process)
        # Only threads that hold the GIL: those that wait inside Ray's C++ look busy to py-spy, and outnumber the others.
        options = ["--gil", "--duration", str(seconds), "--rate", str(RATE), "--format", "raw", "--output", str(stacks)]
        sampler = await asyncio.create_subprocess_exec(
            "py-spy", "record", *options, "--pid", str(pid), stdout=asyncio.subprocess.DEVNULL
        )
        while sampler.returncode is None:
            await run_load(turn, sessions=SESSIONS, turns=2 * SESSIONS)
    return parsed(stacks.read_text(), seconds * RATE)


def _pid(statistics: RuntimeStatistics, process: Process) -> int:
    pids = {
        "session": statistics.session.pid,
        "runner": statistics.runner.pid,
        "agent": statistics.agents[ROOT].pid,
        "driver": os.getpid(),
    }
    return pids[process]


def parsed(stacks: str, possible: int) -> Profile:
    """Read py-spy's raw format: `outermost;…;innermost count`, a line per stack."""
    own: Counter[str] = Counter()
    cumulative: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, samples = line.rpartition(" ")
        frames = [_function(frame) for frame in stack.split(";")]
        own[frames[-1]] += int(samples)
        for frame in set(frames):
            cumulative[frame] += int(samples)
    return Profile(own, cumulative, own.total(), possible)


def _function(frame: str) -> str:
    """`function (folder/file.py:12)` without its line."""
    return frame.rpartition(":")[0] + ")" if frame.endswith(")") and ":" in frame else frame


def table(made: Profile, process: Process, rows: int = 25) -> Table:
    """The functions that cost most, as they are printed."""
    printed = Table("own %", "function", "with callees %", "function", title=_title(made, process))
    best = (Counter(dict(counts)).most_common(rows) for counts in (made.own, made.cumulative))
    for (own, own_samples), (whole, whole_samples) in zip(*best, strict=False):
        printed.add_row(_percent(own_samples, made), own, _percent(whole_samples, made), whole)
    return printed


def _title(made: Profile, process: Process) -> str:
    return f"{process}: Python ran in {made.total} of {made.possible} samples"


def _percent(samples: int, made: Profile) -> str:
    return f"{100 * samples / made.total:.1f}"
