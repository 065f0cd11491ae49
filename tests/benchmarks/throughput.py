"""How many turns a second an async driver gets done in many sessions at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.messages.event import USER
from runtime import Runtime
from tests.benchmarks.figures import Figure, median, percentile
from tests.benchmarks.floor import Floor
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import SENTENCE, LoadResult, instant_agent, run_load, runtime

NAME = "throughput"

Turn = Callable[[int], Awaitable[object]]


def measure(plan: Plan) -> list[Figure]:
    """Turns a second and latency at every number of sessions, ours and the floor by turns."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        floor = stack.enter_context(Floor(folder)).turn if plan.has_floor else None
        return asyncio.run(_measure(plan, folder, floor))


async def _measure(plan: Plan, folder: Path, floor: Turn | None) -> list[Figure]:
    async with runtime(plan, instant_agent(), folder) as rt:
        turn = talk(rt)
        most = max(plan.concurrency)
        await run_load(turn, sessions=most, turns=2 * most)
        ours: dict[int, list[LoadResult]] = {sessions: [] for sessions in plan.concurrency}
        floors: dict[int, list[LoadResult]] = {sessions: [] for sessions in plan.concurrency}
        for _ in range(plan.load_rounds):
            for sessions in plan.concurrency:
                ours[sessions].append(await run_load(turn, sessions=sessions, turns=plan.load))
                if floor is not None:
                    floors[sessions].append(await run_load(floor, sessions=sessions, turns=plan.load))
    return [figure for sessions in plan.concurrency for figure in _figures(sessions, ours[sessions], floors[sessions])]


def talk(rt: Runtime) -> Turn:
    """A turn in the session of a number, to its result."""

    async def turn(session: int) -> None:
        await rt.run(user_id=USER, session_id=f"session-{session}", message=SENTENCE)

    return turn


def _figures(sessions: int, ours: list[LoadResult], floors: list[LoadResult]) -> list[Figure]:
    rate, floor_rate = (median([each.rate for each in loads]) if loads else None for loads in (ours, floors))
    latencies_ms = [latency for each in ours for latency in each.latencies_ms]
    assert rate is not None
    at = f"{sessions} sessions"
    return [
        Figure(benchmark=NAME, name=f"{at}: rate", value=rate, unit="turns/s", reference=floor_rate, at=sessions),
        Figure(benchmark=NAME, name=f"{at}: median", value=median(latencies_ms), unit="ms"),
        Figure(benchmark=NAME, name=f"{at}: p99", value=percentile(latencies_ms, 99), unit="ms"),
    ]
