"""What `rt.map` costs beside the loop that users write by hand: a semaphore, and a session for each input."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from actors import LlmAgent
from actors.messages.event import USER
from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.sessions import DelayedModel
from tests.benchmarks.workloads import ROOT, SENTENCE, runtime

NAME = "map"


def measure(plan: Plan) -> list[Figure]:
    """Inputs a second of a map and of the loop by hand, by turns."""
    return uvloop.run(_measure(plan))


async def _measure(plan: Plan) -> list[Figure]:
    mapped: list[float] = []
    by_hand: list[float] = []
    with TemporaryDirectory() as folder:
        async with runtime(plan, LlmAgent(name=ROOT, model=DelayedModel(plan.call_s)), Path(folder)) as rt:
            await _by_hand(rt, plan.inputs_at_once, plan.inputs_at_once, "warm")
            for number in range(plan.load_rounds):
                mapped.append(await _mapped(rt, plan.inputs, plan.inputs_at_once, f"map-{number}"))
                by_hand.append(await _by_hand(rt, plan.inputs, plan.inputs_at_once, f"hand-{number}"))
    told = f"{plan.inputs:,} inputs, {plan.inputs_at_once} at once, model of {plan.call_s * 1_000:g} ms"
    rate = Figure(told, median(mapped), "inputs/s", median(by_hand), "by hand")
    return [rate]


async def _mapped(rt: Runtime, inputs: int, at_once: int, name: str) -> float:
    began_s = time.perf_counter()
    done = 0
    async for result in rt.aio.map((f"{SENTENCE} {number}" for number in range(inputs)), name=name, concurrency=at_once):
        done += result.error is None
    assert done == inputs
    return inputs / (time.perf_counter() - began_s)


async def _by_hand(rt: Runtime, inputs: int, at_once: int, name: str) -> float:
    began_s = time.perf_counter()
    free = asyncio.Semaphore(at_once)

    async def ask(number: int) -> None:
        async with free:
            await rt.run(user_id=USER, session_id=f"{name}-{number}", message=f"{SENTENCE} {number}")

    async with asyncio.TaskGroup() as group:
        for number in range(inputs):
            group.create_task(ask(number))
    return inputs / (time.perf_counter() - began_s)
