"""What many conversations at once take from each other, with a model that takes its time as real ones do."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import Content, LlmAgent
from actors.messages.llm import LlmRequest, LlmResponse
from tests.benchmarks.figures import Figure, median, percentile
from tests.benchmarks.plan import Plan
from tests.benchmarks.throughput import talk
from tests.benchmarks.workloads import ROOT, runtime

NAME = "sessions"
_TURNS = 3
"""Of each session. The first makes the session, and is not counted."""


class DelayedModel:
    """A model that answers after a while."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await asyncio.sleep(self._after_s)
        yield LlmResponse(content=Content.of_text("ok", role="model"))


def measure(plan: Plan) -> list[Figure]:
    """Turns of every number of sessions, twice: users that read for a while before they answer, and users that answer at once.

    The latter ask for as many turns a second as there are sessions, if they get them: with many, that is more than the machine
    has, and what is measured is the queue.
    """
    return asyncio.run(_measure(plan))


async def _measure(plan: Plan) -> list[Figure]:
    made: list[Figure] = []
    with TemporaryDirectory() as folder:
        async with runtime(plan, LlmAgent(name=ROOT, model=DelayedModel(plan.model_s)), Path(folder)) as rt:
            for sessions in plan.sessions:
                for users, pause_s in (("that read up to", plan.pause_s), ("that answer at once", 0.0)):
                    taken_ms = await _taken_ms(talk(rt), sessions, pause_s)
                    told = f"{sessions:,} sessions, users {users}{f' {pause_s:g} s' if pause_s else ''}"
                    made += _figures(told, taken_ms, plan.model_s)
    return made


async def _taken_ms(turn: Callable[[int], Awaitable[object]], sessions: int, pause_s: float) -> list[float]:
    """Milliseconds of every turn but the first of each session."""
    chance = random.Random(7)
    taken_ms: list[float] = []

    async def converse(session: int) -> None:
        for number in range(_TURNS):
            await asyncio.sleep(chance.uniform(0, pause_s))
            began_s = time.perf_counter()
            await turn(session)
            if number:
                taken_ms.append((time.perf_counter() - began_s) * 1_000)

    async with asyncio.TaskGroup() as group:
        for session in range(sessions):
            group.create_task(converse(session))
    return taken_ms


def _figures(told: str, taken_ms: list[float], model_s: float) -> list[Figure]:
    model_ms = model_s * 1_000
    return [
        Figure(f"{told}: {name}", value, "ms", model_ms, "model")
        for name, value in (("median", median(taken_ms)), ("p99", percentile(taken_ms, 99)))
    ]
