"""Turns in many sessions for a long time, and the resources that the processes use meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

import msgspec

from runtime import Runtime
from tests.support.agents.soak_tree import MESSAGES
from tests.support.machine.process_use import Sample, sample


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
