"""How many turns a second an async driver gets done in many sessions at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import uvloop

from actors.messages.event import USER
from runtime import Runtime
from tests.benchmarks.figures import Figure, median, percentile
from tests.benchmarks.floor import Floor, Wire
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import SENTENCE, LoadResult, instant_agent, run_load, runtime

NAME = "throughput"

Turn = Callable[[int], Awaitable[object]]


def measure(plan: Plan) -> list[Figure]:
    """Turns a second and latency at every number of sessions, ours and the floor by turns."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        wires: tuple[Wire, ...] = get_args(Wire) if plan.has_floor else ()
        floors = {wire: stack.enter_context(Floor(folder, wire)) for wire in wires}
        return uvloop.run(_measure(plan, folder, floors))


async def _measure(plan: Plan, folder: Path, floors: Mapping[Wire, Floor]) -> list[Figure]:
    async with runtime(plan, instant_agent(), folder) as rt:
        turn = talk(rt)
        most = max(plan.concurrency)
        await run_load(turn, sessions=most, turns=2 * most)
        ours: dict[int, list[LoadResult]] = {sessions: [] for sessions in plan.concurrency}
        bare: dict[int, dict[Wire, list[LoadResult]]] = {sessions: {wire: [] for wire in floors} for sessions in plan.concurrency}
        for _ in range(plan.load_rounds):
            for sessions in plan.concurrency:
                ours[sessions].append(await run_load(turn, sessions=sessions, turns=plan.load))
                for wire, floor in floors.items():
                    bare[sessions][wire].append(await run_load(floor.turn, sessions=sessions, turns=plan.load))
    for floor in floors.values():
        await floor.leave()
    return [figure for sessions in plan.concurrency for figure in _figures(sessions, ours[sessions], bare[sessions])]


def talk(rt: Runtime) -> Turn:
    """A turn in the session of a number, to its result."""

    async def turn(session: int) -> None:
        await rt.run(user_id=USER, session_id=f"session-{session}", message=SENTENCE)

    return turn


def _figures(sessions: int, ours: list[LoadResult], bare: Mapping[Wire, list[LoadResult]]) -> list[Figure]:
    rate = median([each.rate for each in ours])
    floors = {wire: median([each.rate for each in loads]) for wire, loads in bare.items()}
    floor = floors.pop("bare connections", None)
    latencies_ms = [latency for each in ours for latency in each.latencies_ms]
    at = f"{sessions} sessions"
    return [
        Figure(benchmark=NAME, name=f"{at}: rate", value=rate, unit="turns/s", reference=floor, at=sessions),
        Figure(benchmark=NAME, name=f"{at}: median", value=median(latencies_ms), unit="ms"),
        Figure(benchmark=NAME, name=f"{at}: p99", value=percentile(latencies_ms, 99), unit="ms"),
        *(Figure(benchmark=NAME, name=f"{at}, {wire}: rate", value=value, unit="turns/s") for wire, value in floors.items()),
    ]
