"""Turns in many sessions for a long time, and the resources that the processes use meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import msgspec

from actors.errors import RaygroveError
from runtime import Runtime
from tests.support.agents.soak_tree import MESSAGES
from tests.support.machine.killer import Killer
from tests.support.machine.process_use import Sample, by_kind, ray_pids, sample


class SoakPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a soak run.

    Attributes:
        turns: of all sessions together.
        at_once: users who talk at the same time.
        session_turns: turns of a session; then its user begins another, and the session is never used again.
        every: turns between two samples.
    """

    turns: int
    at_once: int
    session_turns: int
    every: int


async def run_soak(rt: Runtime, plan: SoakPlan, told: Callable[[Sample], None]) -> list[Sample]:
    """Run the turns, tell each sample as it is taken, and return them all."""
    samples: list[Sample] = []
    sessions, begun, done = count(), count(), count(1)

    async def talk() -> None:
        while True:
            session_id = f"s{next(sessions)}"
            for number in range(plan.session_turns):
                if next(begun) >= plan.turns:
                    return
                message = MESSAGES[number % len(MESSAGES)]
                result = await rt.run(user_id=f"u-{session_id}", session_id=session_id, message=message)
                assert result.text, message
                turns = next(done)
                if turns % plan.every == 0:
                    samples.append(await sample(rt, turns))
                    told(samples[-1])

    async with asyncio.TaskGroup() as group:
        for _ in range(plan.at_once):
            group.create_task(talk())
    return samples


class KillPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run in which processes are killed.

    Attributes:
        minutes: how long it lasts.
        rate: turns that begin each second.
        kill_every_s, sample_every_s: seconds between two kills, on average, and between two samples.
    """

    minutes: float
    rate: float
    kill_every_s: float
    sample_every_s: float


class KillRun(msgspec.Struct, kw_only=True):
    """What has come of it.

    Attributes:
        samples: what each kind of process uses: of those that are several the most, the agents' processes for example.
        turns: how many have ended.
        failures: what else they have ended with, and how often.
        deleted: sessions.
        kills: processes.
    """

    samples: list[Sample]
    turns: int = 0
    failures: Counter[str]
    deleted: int = 0
    kills: int = 0


async def run_with_kills(rt: Runtime, plan: KillPlan, told: Callable[[Sample, KillRun], None]) -> KillRun:
    """Have turns begin at a rate in sessions of which every other is deleted in the end, while processes are killed."""
    run = KillRun(samples=[], failures=Counter())
    began_s = time.monotonic()

    async def converse(number: int) -> None:
        for text in MESSAGES:
            try:
                result = await rt.run(user_id=f"u{number % 1_000}", session_id=f"s{number}", message=text)
                assert result.text, text
            except RaygroveError as error:
                run.failures[f"{type(error).__name__}: {error}"] += 1
            run.turns += 1
        if number % 2:
            await rt.aio.sessions.delete(f"u{number % 1_000}", f"s{number}")
            run.deleted += 1

    async def look() -> None:
        while True:
            await asyncio.sleep(plan.sample_every_s)
            seen = by_kind(await sample(rt, int(time.monotonic() - began_s)), ray_pids())
            run.samples.append(seen)
            told(seen, run)

    with Killer(rt, plan.kill_every_s, seed=1) as killer:
        looking = asyncio.create_task(look())
        async with asyncio.TaskGroup() as group:
            for number in count():
                if looking.done() or time.monotonic() - began_s > 60 * plan.minutes:
                    break
                group.create_task(converse(number))
                await asyncio.sleep(len(MESSAGES) / plan.rate)
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
    run.kills = killer.kills
    return run
