"""How long a large tree takes to start whose agents share no code, since each has a model object of its own."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.figures import Figure
from tests.benchmarks.plan import Plan
from tests.benchmarks.trees import tree
from tests.benchmarks.workloads import run_turn, runtime

NAME = "own_models"


def measure(plan: Plan) -> list[Figure]:
    """Time and CPU of the program until the tree has started; a turn of its root shows that it has."""
    root = tree(plan.own_models, own_models=True)
    with TemporaryDirectory() as folder:
        began_s, spent_s = time.perf_counter(), time.process_time()
        with runtime(plan, root, Path(folder)) as rt:
            took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - spent_s
            assert run_turn(rt, "s")[-1].text == "ok"
    told = f"{plan.own_models:,} agents with models of their own"
    return [
        Figure(benchmark=NAME, name=f"{told}: Runtime ready", value=took_s, unit="s"),
        Figure(benchmark=NAME, name=f"{told}: CPU of the program until then", value=cpu_s, unit="s"),
    ]
