"""How long a turn is held up when a process is killed in the middle of it: until its next event."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import Agent, LlmAgent
from runtime import Runtime
from runtime.driver.statistics import RuntimeStatistics
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import ROOT, runtime
from tests.support.waiting_model import GatedModel

NAME = "recovery"

VICTIMS: dict[str, Callable[[RuntimeStatistics], list[int]]] = {
    "the agent": lambda seen: [seen.agents[ROOT].pid],
    "the Runner, and with it the agent": lambda seen: [seen.runner.pid],
    "the Session actor": lambda seen: [seen.session.pid],
}


def measure(plan: Plan) -> list[Figure]:
    """Turns whose model is waited for when the process is killed. Not for the local engine, which has none to kill."""
    return [
        Figure(benchmark=NAME, name=f"kill {who}: next event, median", value=median(_all(plan, pids)), unit="ms")
        for who, pids in VICTIMS.items()
    ]


def _all(plan: Plan, pids: Callable[[RuntimeStatistics], list[int]]) -> list[float]:
    with TemporaryDirectory() as folder:
        model = GatedModel(Path(folder), "ok")
        root: Agent = LlmAgent(name=ROOT, model=model)
        with runtime(plan, root, Path(folder)) as rt:
            return [_one(rt, model, pids) for _ in range(plan.losses)]


def _one(rt: Runtime, model: GatedModel, pids: Callable[[RuntimeStatistics], list[int]]) -> float:
    turn = rt.run(user_id="ada", session_id="s", message="go")
    model.wait_until_called()
    victims = pids(rt.statistics())
    is_called_again = rt.statistics().session.pid not in victims
    began_s = time.perf_counter()
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    if is_called_again:
        model.wait_until_called()
    model.release()
    assert turn.result().text == "ok"
    return (time.perf_counter() - began_s) * 1_000
