"""What an iteration of a loop costs: a child that answers at once, and the loop's own note of how far it is."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from actors import BaseAgent, LoopAgent
from tests.benchmarks.figures import Figure, median, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.recorded import record
from tests.benchmarks.workloads import run_turn, runtime
from tests.support.vectors.vector_agents import SayingAgent

NAME = "loop"


def measure(plan: Plan) -> list[Figure]:
    """Turns that are one loop each; both agents live already. The calls between actors are counted on the local engine."""
    with TemporaryDirectory() as folder, runtime(plan, tree(plan.iterations), Path(folder)) as rt:
        run_turn(rt, "s")
        loops_ms = [timed_ms(lambda: run_turn(rt, "s")) for _ in range(plan.loops)]
    calls = record(tree(plan.iterations)).calls
    # How often the driver polls depends on the size of the replies.
    made = sum(count for name, count in calls.items() if name != "Poll")
    return [
        Figure("iteration: median", median(loops_ms) / plan.iterations, "ms"),
        Figure("iteration: calls between actors", made / plan.iterations, "calls"),
    ]


def tree(iterations: int) -> BaseAgent:
    """A loop over one child that answers at once."""
    return LoopAgent(name="loop", max_iterations=iterations, sub_agents=[SayingAgent(name="child", say=["ok"])])
