"""Conversations that all begin in the same moment, each by a user of its own, with a model that takes its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import uvloop

from actors import LlmAgent
from actors.errors import RaygroveError
from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, median, percentile
from tests.benchmarks.plan import Plan
from tests.benchmarks.sessions import DelayedModel
from tests.benchmarks.throughput import talk
from tests.benchmarks.workloads import ROOT, SENTENCE, instant_agent, run_load, runtime
from tests.support.machine.process_use import cpu_s, pids_of

NAME = "burst"

ROUNDS = 8
"""In which new sessions are begun, and turns run in those that are there, by turns."""


class BurstResult(msgspec.Struct, frozen=True):
    """Outcomes of a burst.

    Attributes:
        latencies_ms: of each conversation that got its answer.
        failures: why the others failed, and how many did for that reason.
        cpu_s: seconds of CPU meanwhile, by actor; `driver` is this process, in which all actors of the local engine live.
    """

    latencies_ms: list[float]
    failures: Mapping[str, int]
    cpu_s: Mapping[str, float]


def measure(plan: Plan) -> list[Figure]:
    """Answers, latencies and CPU of one burst, after a few conversations that start everything; and the rate of new sessions."""
    with TemporaryDirectory() as folder:
        figures = _figures(plan, asyncio.run(_burst(plan, Path(folder))))
    with TemporaryDirectory() as folder:
        return figures + uvloop.run(_new_sessions(plan, Path(folder)))


async def _new_sessions(plan: Plan, folder: Path) -> list[Figure]:
    """First turns of new users beside turns in sessions that are there, as many at a time, by a model that answers at once."""
    at_once, numbers = max(plan.concurrency), count()
    turns = max(plan.burst // ROUNDS, at_once)
    async with runtime(plan, instant_agent(), folder) as rt:

        async def begin(_: int) -> None:
            await rt.run(user_id=f"new-{next(numbers)}", session_id="s", message=SENTENCE)

        loads = {"new": begin, "existing": talk(rt)}
        for turn in loads.values():
            await run_load(turn, sessions=at_once, turns=2 * at_once)
        rates: dict[str, list[float]] = {name: [] for name in loads}
        for _ in range(ROUNDS):
            for name, turn in loads.items():
                rates[name].append((await run_load(turn, sessions=at_once, turns=turns)).rate)
    return [
        Figure(
            f"new sessions, {at_once} at a time: rate{in_round}",
            of_rounds(rates["new"]),
            "turns/s",
            of_rounds(rates["existing"]),
            "existing sessions",
        )
        for in_round, of_rounds in (("", median), (", the most of a round", max))
    ]


async def _burst(plan: Plan, folder: Path) -> BurstResult:
    root = LlmAgent(name=ROOT, model=DelayedModel(plan.burst_model_s))
    async with runtime(plan, root, folder) as rt:
        return await burst(rt, plan.burst)


async def burst(rt: Runtime, conversations: int, over_s: float = 0.0) -> BurstResult:
    """Have so many new users begin a conversation. A few others have done so before, so that everything is started.

    Args:
        over_s: seconds in which they begin, at an even rate; 0: all at once.
    """
    await asyncio.gather(*(rt.run(user_id=f"early-{number}", session_id="s", message=SENTENCE) for number in range(8)))
    latencies_ms: list[float] = []
    failures: dict[str, int] = {}

    async def converse(number: int) -> None:
        due_s = number * over_s / conversations
        if due_s:
            await asyncio.sleep(due_s)
        try:
            await rt.run(user_id=f"user-{number}", session_id="s", message=SENTENCE)
        except RaygroveError as error:
            reason = f"{type(error).__name__}: {error}"
            failures[reason] = failures.get(reason, 0) + 1
        else:
            latencies_ms.append((time.perf_counter() - began_s - due_s) * 1_000)

    pids = await pids_of(rt)
    before_s = {who: cpu_s(pid) for who, pid in pids.items()}
    began_s = time.perf_counter()
    await asyncio.gather(*(converse(number) for number in range(conversations)))
    # A process that was lost meanwhile has no clock any more.
    lives = {who: pid for who, pid in (await pids_of(rt)).items() if pids[who] == pid}
    return BurstResult(latencies_ms, failures, {who: cpu_s(pid) - before_s[who] for who, pid in lives.items()})


def _figures(plan: Plan, done: BurstResult) -> list[Figure]:
    told = f"{plan.burst:,} conversations begin at once, model {plan.burst_model_s:g} s"
    answered, model_ms = len(done.latencies_ms), plan.burst_model_s * 1_000
    for reason, times in done.failures.items():
        print(f"{times:,} failed: {reason}")
    made = [Figure(f"{told}: answered", answered, "turns")]
    if answered:
        made += [
            Figure(f"{told}: {name}", value, "ms", model_ms, "model")
            for name, value in (("median", median(done.latencies_ms)), ("p99", percentile(done.latencies_ms, 99)))
        ]
    each_ms = {who: spent_s * 1_000 / plan.burst for who, spent_s in done.cpu_s.items()}
    return [
        *made,
        *(Figure(f"CPU of a turn in the {who}", spent, "ms") for who, spent in each_ms.items()),
        Figure("CPU of a turn, all processes", sum(each_ms.values()), "ms"),
    ]
