"""What a turn costs that a sync driver runs, by the length of the session's history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, interleaved, median, percentile
from tests.benchmarks.floor import Floor, Wire
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import instant_agent, run_turn, runtime, write_history

NAME = "turn"
EVENTS_A_TURN = 2

FLOORS: Mapping[str, tuple[bool, Wire]] = {
    "floor": (False, "bare connections"),
    "floor with commits": (True, "bare connections"),
    "bare Ray calls": (False, "bare Ray calls"),
    "bare Ray calls with commits": (True, "bare Ray calls"),
}
"""By name: whether it has commits, and how its messages travel."""


def measure(plan: Plan) -> list[Figure]:
    """Median and p95 of a turn at every length of history, all lengths and the floor in blocks by turns."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        sessions = {length: _session_ids(length, plan.turns) for length in plan.histories}
        write_history(folder, {session_id: length for length, ids in sessions.items() for session_id in ids})
        rt = stack.enter_context(runtime(plan, instant_agent(), folder))
        contestants: dict[str, Callable[[], object]] = {str(length): _talk(rt, ids) for length, ids in sessions.items()}
        if plan.has_floor:
            for name, (has_commits, wire) in FLOORS.items():
                contestants[name] = stack.enter_context(Floor(folder if has_commits else None, wire)).turn_sync
        _warm_up(rt, sessions, contestants)
        samples = interleaved(contestants, plan.turns)
    return _figures(plan, samples)


def _session_ids(length: int, turns: int) -> list[str]:
    """So many sessions that their histories at most double while they are measured."""
    return [f"{length}-{index}" for index in range(-(-EVENTS_A_TURN * turns // length))]


def _talk(rt: Runtime, session_ids: list[str]) -> Callable[[], object]:
    by_turns = cycle(session_ids)
    return lambda: run_turn(rt, next(by_turns))


def _warm_up(rt: Runtime, sessions: dict[int, list[str]], contestants: dict[str, Callable[[], object]]) -> None:
    """Have the actors live and every session's view compiled."""
    for session_id in [session_id for ids in sessions.values() for session_id in ids]:
        run_turn(rt, session_id)
    interleaved(contestants, 20)


def _figures(plan: Plan, samples: dict[str, list[float]]) -> list[Figure]:
    floors = {name: median(samples.pop(name)) for name in FLOORS if name in samples}
    floor = floors.get("floor with commits")
    made = [Figure(f"{name}: median", value, "ms") for name, value in floors.items()]
    for length, taken in samples.items():
        at = f"at {int(length):,} events"
        middle = median(taken)
        made.append(Figure(f"{at}: median", middle, "ms", floor, at=int(length)))
        made.append(Figure(f"{at}: p95", percentile(taken, 95), "ms"))
    shortest, longest = str(min(plan.histories)), str(max(plan.histories))
    return [*made, _growth(samples[shortest], samples[longest])]


def _growth(shortest: list[float], longest: list[float]) -> Figure:
    return Figure("longest history, against the shortest: median", median(longest), "ms", median(shortest), "shortest")
