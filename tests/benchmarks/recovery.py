"""How long a turn is held up when a process is killed in the middle of it: until its next event."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import BaseAgent, LlmAgent
from runtime import Runtime
from runtime.driver.statistics import RuntimeStatistics
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import ROOT, runtime
from tests.support.models.waiting_model import GatedModel

NAME = "recovery"

Pids = Callable[[RuntimeStatistics], list[int]]


def _agent(seen: RuntimeStatistics) -> list[int]:
    return [seen.agents[ROOT].pid]


VICTIMS: dict[str, tuple[Pids, int]] = {
    "the agent, a process ready": (_agent, 1),
    "the agent, none ready": (_agent, 0),
    "the Runner, and with it the agent": (lambda seen: [seen.runner.pid], 1),
    "the Session actor": (lambda seen: [seen.session.pid], 1),
}
"""By what is killed: the processes, and how many others stand ready for agents meanwhile."""


def measure(plan: Plan) -> list[Figure]:
    """Turns whose model is waited for when the process is killed. Not for the local engine, which has none to kill."""
    return [
        Figure(benchmark=NAME, name=f"kill {who}: next event, median", value=median(_all(plan, pids, ready)), unit="ms")
        for who, (pids, ready) in VICTIMS.items()
    ]


def _all(plan: Plan, pids: Pids, ready: int) -> list[float]:
    with TemporaryDirectory() as folder:
        model = GatedModel(Path(folder), "ok")
        root: BaseAgent = LlmAgent(name=ROOT, model=model)
        with runtime(plan, root, Path(folder), spare_hosts=ready) as rt:
            return [_one(rt, model, pids, ready) for _ in range(plan.losses)]


def _one(rt: Runtime, model: GatedModel, pids: Pids, ready: int) -> float:
    turn = rt.run(user_id="ada", session_id="s", message="go")
    model.wait_until_called()
    # An agent begins before its message is on disk: a loss in between has the model asked twice, and it is released once.
    while not any(each.invocation_id == turn.invocation_id for each in rt.turns.list("ada", "s", "running")):
        time.sleep(0.01)
    while len(rt.statistics().runner.spare_pids) < ready:
        time.sleep(0.1)
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
