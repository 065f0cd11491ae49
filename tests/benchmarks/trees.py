"""What a tree of ten thousand agents costs beside one of ten: until it is ready, in every turn, and until it is updated."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import LlmAgent, tool
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, interleaved, median, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import ROOT, run_turn, runtime

NAME = "trees"
SMALL = 10
WIDTH = 10


@tool
def look_up(order_id: str) -> dict[str, str]:
    """Look an order up."""
    return {"order_id": order_id}


def tree(agents: int, *, own_models: bool = False, edition: int = 0) -> LlmAgent:
    """So many agents, each with up to ten below it, words of its own and a tool.

    Args:
        own_models: each has a model object of its own, instead of its parent's.
        edition: the last agent is told its number.
    """
    made: dict[int, LlmAgent] = {}
    for number in reversed(range(agents)):
        below = range(WIDTH * number + 1, min(WIDTH * number + WIDTH + 1, agents))
        made[number] = LlmAgent(
            name=f"clerk_{number}" if number else ROOT,
            model=PatternModel([], default="ok") if own_models or not number else "",
            description=f"Answers questions about department {number}.",
            instruction=f"You are the clerk of department {number}. Answer in one sentence, and name the department."
            + (f" Edition {edition}." if edition and number == agents - 1 else ""),
            tools=[look_up],
            sub_agents=[made.pop(each) for each in below],
        )
    return made[0]


def measure(plan: Plan) -> list[Figure]:
    """Ready times and turns of a small tree and a large one by turns."""
    return [*_definition(plan), *_ready(plan), *_ready_with_ray(plan), *_turns(plan), *_updates(plan)]


def _definition(plan: Plan) -> list[Figure]:
    taken = [timed_ms(lambda: tree(plan.agents)) for _ in range(max(1, plan.starts))]
    return [Figure(f"{plan.agents:,} agents defined: median", median(taken), "ms")]


def _ready(plan: Plan) -> list[Figure]:
    # The first of each finds modules not loaded and processes not warm.
    taken: dict[int, list[float]] = {SMALL: [], plan.agents: []}
    for attempt in range(plan.starts + 1):
        for agents, times in taken.items():
            ready_ms = ready(plan, agents)
            if attempt:
                times.append(ready_ms)
    return _compared(plan, "Runtime ready, Ray runs already", taken)


def ready(plan: Plan, agents: int) -> float:
    """Milliseconds from the call of `Runtime` until it has started."""
    root = tree(agents)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        return timed_ms(lambda: stack.enter_context(runtime(plan, root, Path(folder))))


def _ready_with_ray(plan: Plan) -> list[Figure]:
    taken: dict[int, list[float]] = {SMALL: [], plan.agents: []}
    for _ in range(plan.ray_starts):
        for agents, times in taken.items():
            # A process that has no Ray yet, and takes none that happens to be on this machine, such as ours.
            environment = os.environ | {"RAY_ADDRESS": "local"}
            command = [sys.executable, "-m", __name__, str(agents)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            times.append(float(done.stdout))
    return _compared(plan, "Runtime ready, and Ray with it", taken) if plan.ray_starts else []


def _turns(plan: Plan) -> list[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        live: dict[int, Runtime] = {}
        for agents in (SMALL, plan.agents):
            (folder / str(agents)).mkdir()
            app = f"{NAME}-{agents}"
            live[agents] = stack.enter_context(runtime(plan, tree(agents), folder / str(agents), app))
        contestants = {str(agents): (lambda rt=rt: run_turn(rt, "s")) for agents, rt in live.items()}
        interleaved(contestants, 20)
        samples = interleaved(contestants, plan.turns)
    return _compared(plan, "a turn of the root", {int(agents): times for agents, times in samples.items()})


def _updates(plan: Plan) -> list[Figure]:
    taken: dict[int, list[float]] = {SMALL: [], plan.agents: []}
    for agents, times in taken.items():
        with TemporaryDirectory() as folder, runtime(plan, tree(agents), Path(folder), f"{NAME}-{agents}") as rt:
            run_turn(rt, "s")
            # The first one is left out, as above.
            for edition in range(1, plan.starts + 3):
                times.append(updated(rt, tree(agents, edition=edition)))
            times.pop(0)
    return _compared(plan, "one agent is updated", taken)


def updated(rt: Runtime, root: LlmAgent) -> float:
    """Milliseconds until new turns of a deployment begin by a tree in which one agent is another."""
    taken_ms = timed_ms(lambda: rt.update(root))
    run_turn(rt, "s")
    return taken_ms


def _compared(plan: Plan, what: str, taken: dict[int, list[float]]) -> list[Figure]:
    small, large = median(taken[SMALL]), median(taken[plan.agents])
    return [
        Figure(f"{what}, {SMALL} agents: median", small, "ms"),
        Figure(f"{what}, {plan.agents:,} agents: median", large, "ms", small, f"{SMALL} agents"),
    ]


if __name__ == "__main__":
    print(ready(Plan(), int(sys.argv[1])))
