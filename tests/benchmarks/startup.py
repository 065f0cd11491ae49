"""How long a Runtime takes to start, and how long the first message to an agent that has no process yet."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.figures import Figure, median, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import instant_agent, run_turn, runtime

NAME = "startup"


def measure(plan: Plan) -> list[Figure]:
    """Start, first turn, second turn and stop, of several Runtimes one after the other. Ray runs already."""
    starts = [_start(plan) for _ in range(plan.starts)]
    return [Figure(f"{name}: median", median([each[name] for each in starts]), "ms") for name in starts[0]]


def _start(plan: Plan) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        rt = runtime(plan, instant_agent(), Path(folder))
        return {
            "Runtime starts": timed_ms(rt.start),
            "first message, which starts the agent": timed_ms(lambda: run_turn(rt, "s")),
            "second message": timed_ms(lambda: run_turn(rt, "s")),
            "Runtime stops": timed_ms(rt.close),
        }
