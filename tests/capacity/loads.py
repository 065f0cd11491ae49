"""Loads on the real engine, on Ray, with a model that answers at once; and the kernel's account of CPU meanwhile, by part."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec

from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import percentile
from tests.benchmarks.throughput import talk
from tests.benchmarks.workloads import ROOT, LoadResult, run_load
from tests.capacity.unit_costs import AGENT, DATABASE, RUNNER, SESSION, WEB, MeasuredLoad
from tests.support.machine.process_use import MB, cpu_s, use_of

LEVELS: Mapping[int, int] = {1: 256, 4: 512, 16: 1_024, 64: 1_536, 128: 2_048, 256: 2_048}
"""Turns of a round, by sessions at once."""
MOST = max(LEVELS)
_FIRST_TURNS = 2
"""Of each session, which are not counted: one that begins takes more."""


class CpuClock(msgspec.Struct, frozen=True):
    """Seconds of CPU so far, by part, and of all processes of the machine."""

    parts: Mapping[str, float]
    machine_s: float


class MeasuredDeployment:
    """A deployment under load, and its processes.

    Args:
        rt: with one agent.
        postmaster: process of the database, if it is one of this machine.
        most: sessions at once by which it is warmed up.
    """

    def __init__(self, rt: Runtime, postmaster: int | None = None, most: int = MOST) -> None:
        self._rt = rt
        self._most = most
        self._postmaster = postmaster
        self._number = 0
        self._pids: Mapping[str, Sequence[int]] = {}

    async def warm_up(self, turns: int = 0) -> None:
        """Have all processes live that the loads need."""
        await self._run(self._most, turns or 2 * self._most)
        seen = await self._rt.aio.statistics()
        self._pids = {
            WEB: [os.getpid()],
            SESSION: [part.pid for part in seen.session.parts or [seen.session]],
            RUNNER: [seen.runner.pid],
            AGENT: [seen.agents[ROOT].pid],
            DATABASE: [] if self._postmaster is None else _children(self._postmaster),
        }
        await self._run(self._most, turns or 4 * self._most)

    async def load(self, sessions: int, turns: int = 0) -> MeasuredLoad:
        """Put a closed loop on it, once, of as many turns as the level has, in sessions that are new.

        What a turn takes grows with what was said before. In sessions that all loads shared an agent's CPU grew from 1.0 to 1.24
        times that of its Runner within five rounds of one session, and was 1.3 to 4.7 times that with 128. In new ones it stays.
        """
        self._number += 1
        await self._run(sessions, _FIRST_TURNS * sessions)
        commits, before, began_s = await self._commits(), self._clock(), time.perf_counter()
        done = await self._run(sessions, turns or LEVELS[sessions])
        took_s, after = time.perf_counter() - began_s, self._clock()
        turns = len(done.latencies_ms)
        spent_s = {part: after.parts[part] - before.parts[part] for part in after.parts}
        own_s = sum(spent_s.values())
        return MeasuredLoad(
            sessions=sessions,
            turns=turns,
            rate=done.rate,
            p50_ms=percentile(done.latencies_ms, 50),
            p95_ms=percentile(done.latencies_ms, 95),
            p99_ms=percentile(done.latencies_ms, 99),
            cpu_ms={part: spent * 1_000 / turns for part, spent in spent_s.items()},
            commits=(await self._commits() - commits) / turns,
            others=max(0.0, after.machine_s - before.machine_s - own_s) / took_s,
        )

    def memory_mb(self) -> dict[str, float]:
        """Memory of a process, by part: that of its own, without what it shares."""
        found = {part: [use_of(pid).memory / MB for pid in pids] for part, pids in self._pids.items() if part != DATABASE}
        return {part: round(max(each), 1) for part, each in found.items()}

    async def _run(self, sessions: int, turns: int) -> LoadResult:
        return await run_load(talk(self._rt, f"load-{self._number}"), sessions=sessions, turns=turns)

    async def _commits(self) -> int:
        return (await self._rt.aio.statistics()).session.counts["commits"]

    def _clock(self) -> CpuClock:
        parts = {part: sum(cpu_s(pid) for pid in pids) for part, pids in self._pids.items()}
        return CpuClock(parts, _machine_s())


def combined(rounds: Sequence[MeasuredLoad]) -> MeasuredLoad:
    """The medians of several rounds of one load."""
    first = rounds[0]

    def middle(value: Callable[[MeasuredLoad], float]) -> float:
        return round(median(map(value, rounds)), 4)

    return MeasuredLoad(
        sessions=first.sessions,
        turns=first.turns,
        rate=middle(lambda each: each.rate),
        p50_ms=middle(lambda each: each.p50_ms),
        p95_ms=middle(lambda each: each.p95_ms),
        p99_ms=middle(lambda each: each.p99_ms),
        cpu_ms={part: middle(lambda each: each.cpu_ms[part]) for part in first.cpu_ms},  # noqa: B023
        commits=middle(lambda each: each.commits),
        others=middle(lambda each: each.others),
    )


def _machine_s() -> float:
    """CPU that all processes of the machine have had."""
    user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    """A process and those that it has begun."""
    return [pid, *(int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
