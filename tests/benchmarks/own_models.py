"""What a very large tree costs beside one of ten: until it is ready, and in memory. Its agents share no code, or all of it."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.benchmarks.figures import Figure
from tests.benchmarks.plan import Plan
from tests.benchmarks.trees import SMALL, tree
from tests.benchmarks.workloads import run_turn, runtime
from tests.support.machine.process_use import use_of

NAME = "own_models"


class Costs(msgspec.Struct, frozen=True):
    """What one tree takes.

    Attributes:
        ready_s: from the call of `Runtime` until it has started.
        cpu_s: of the program until then.
        memory_mb: of the Runner's and the Session actor's process after a turn, by name: what is theirs alone.
    """

    ready_s: float
    cpu_s: float
    memory_mb: dict[str, float]


def measure(plan: Plan) -> list[Figure]:
    """Time, CPU of the program and memory of the actors, of a small tree and of two large ones."""
    costs(plan, SMALL, own_models=True)
    small = costs(plan, SMALL, own_models=True)
    figures = _figures(f"{SMALL} agents", small, None)
    for words, own_models in (("models of their own", True), ("one model", False)):
        large = costs(plan, plan.own_models, own_models=own_models)
        figures += _figures(f"{plan.own_models:,} agents with {words}", large, small)
    return figures


def costs(plan: Plan, agents: int, *, own_models: bool) -> Costs:
    """Start a tree, and have its root take a turn, which shows that it has started."""
    root = tree(agents, own_models=own_models)
    with TemporaryDirectory() as folder:
        began_s, spent_s = time.perf_counter(), time.process_time()
        with runtime(plan, root, Path(folder)) as rt:
            took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - spent_s
            assert run_turn(rt, "s")[-1].text == "ok"
            seen = rt.statistics()
            pids = {"the Runner": seen.runner.pid, "the Session actor": seen.session.pid}
            # Where all is one process there is nothing to tell apart.
            memory = {who: use_of(pid).memory / 1e6 for who, pid in pids.items()} if plan.has_floor else {}
            return Costs(took_s, cpu_s, memory)


def _figures(told: str, costs: Costs, small: Costs | None) -> list[Figure]:
    def figure(name: str, value: float, unit: str, reference: float | None) -> Figure:
        if reference is None:
            return Figure(f"{told}: {name}", value, unit)
        beside = f"{SMALL} agents"
        return Figure(f"{told}: {name}", value, unit, reference, beside)

    return [
        figure("Runtime ready", costs.ready_s, "s", small.ready_s if small else None),
        figure("CPU of the program until then", costs.cpu_s, "s", small.cpu_s if small else None),
        *(
            figure(f"memory of {who}", memory, "MB", small.memory_mb[who] if small else None)
            for who, memory in costs.memory_mb.items()
        ),
    ]
