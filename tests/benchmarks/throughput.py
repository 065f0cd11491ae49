"""How many turns a second an async driver gets done in many sessions at once, and what CPU a turn takes of all processes."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, get_args

import uvloop

from actors.messages.event import USER
from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import OURS, Figure, median, percentile
from tests.benchmarks.floor import Floor, Wire
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import SENTENCE, LoadResult, instant_agent, run_load, runtime
from tests.support.machine.process_use import cpu_s, pids_of

NAME = "throughput"

FLOOR: Wire = "bare connections"
SLOW: Wire = "bare Ray calls"
TIMES = 8
"""Rounds in a row of ours and of the floor, by turns, beside one of what is slow. Only the middle of many says much: one round of
the floor takes a fifth less time than the next, as the disk has it."""

Turn = Callable[[int], Awaitable[object]]


def measure(plan: Plan) -> list[Figure]:
    """Turns a second and latency at every number of sessions, ours and the floor by turns."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        wires: tuple[Wire, ...] = get_args(Wire) if plan.has_floor else ()
        floors = {wire: stack.enter_context(Floor(folder, wire)) for wire in wires}
        return uvloop.run(_measure(plan, folder, floors))


class _Round(NamedTuple):
    """A round of turns, and the CPU that one of them took of all processes, in milliseconds."""

    load: LoadResult
    cpu_ms: float


async def _measure(plan: Plan, folder: Path, floors: Mapping[Wire, Floor]) -> list[Figure]:
    async with runtime(plan, instant_agent(), folder) as rt:
        turn, most = talk(rt), max(plan.concurrency)
        await run_load(turn, sessions=most, turns=2 * most)
        contestants: dict[str, tuple[Turn, Collection[int]]] = {OURS: (turn, (await pids_of(rt)).values())}
        contestants |= {wire: (floor.turn, [os.getpid(), *floor.pids()]) for wire, floor in floors.items()}
        order = [name for name in contestants if name != SLOW] * TIMES + [name for name in contestants if name == SLOW]
        rounds: dict[int, dict[str, list[_Round]]] = {
            sessions: {name: [] for name in contestants} for sessions in plan.concurrency
        }
        for number in range(plan.load_rounds):
            for sessions in plan.concurrency:
                # What a long session costs, `turn` says. In these, as in those of the peers, few turns were before.
                turn = talk(rt, f"round-{number}-of-{sessions}")
                await run_load(turn, sessions=sessions, turns=2 * sessions)
                contestants[OURS] = (turn, contestants[OURS][1])
                for name in order:
                    rounds[sessions][name].append(await _round(*contestants[name], sessions, plan.load))
    for floor in floors.values():
        await floor.leave()
    return [figure for sessions, taken in rounds.items() for figure in _figures(sessions, taken)]


async def _round(turn: Turn, pids: Collection[int], sessions: int, turns: int) -> _Round:
    before_s = sum(map(cpu_s, pids))
    load = await run_load(turn, sessions=sessions, turns=turns)
    return _Round(load, (sum(map(cpu_s, pids)) - before_s) * 1_000 / len(load.latencies_ms))


def talk(rt: Runtime, sessions: str = "session") -> Turn:
    """A turn in the session of a number, to its result. Other `sessions` are other ones with the same numbers."""

    async def turn(session: int) -> None:
        await rt.run(user_id=USER, session_id=f"{sessions}-{session}", message=SENTENCE)

    return turn


def _figures(sessions: int, rounds: Mapping[str, list[_Round]]) -> list[Figure]:
    ours, floor, slow = (rounds.get(name, []) for name in (OURS, FLOOR, SLOW))
    latencies_ms = [latency for each in ours for latency in each.load.latencies_ms]
    at = f"{sessions} sessions"
    made = [
        Figure(
            f"{at}: rate",
            _rate(ours),
            "turns/s",
            _rate(floor) if floor else None,
            at=sessions,
            paired=median([theirs.load.rate / own.load.rate for own, theirs in zip(ours, floor, strict=True)]) if floor else None,
        ),
        *(
            Figure(
                f"{at}: CPU of a turn, all processes{in_round}",
                of_rounds([each.cpu_ms for each in ours]),
                "ms",
                of_rounds([each.cpu_ms for each in floor]) if floor else None,
            )
            for in_round, of_rounds in (("", median), (", the least of a round", min))
        ),
        Figure(f"{at}: median", median(latencies_ms), "ms"),
        Figure(f"{at}: p99", percentile(latencies_ms, 99), "ms"),
    ]
    if slow:
        made.append(Figure(f"{at}, {SLOW}: rate", _rate(slow), "turns/s"))
    return made


def _rate(rounds: Sequence[_Round]) -> float:
    return median([each.load.rate for each in rounds])
