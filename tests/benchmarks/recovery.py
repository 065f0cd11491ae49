"""How long a turn is held up when a process is killed in the middle of it: until its next event."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from actors import BaseAgent, Content, LlmAgent, LlmRequest, LlmResponse
from runtime.driver.runtime import Runtime
from runtime.driver.services.deployment import RuntimeStatistics
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import ROOT, SENTENCE, runtime
from tests.support.machine.processes import is_running
from tests.support.models.waiting_model import GatedModel

NAME = "recovery"

GO = "go"

Pids = Callable[[RuntimeStatistics], list[int]]


class GoModel(GatedModel):
    """Waits at the gate where the user has said `GO`, and answers anything else at once."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        if request.contents[-1].text != GO:
            yield LlmResponse(content=Content.of_text("ok", role="model"))
            return
        async for response in super().generate(request, stream=stream):
            yield response


def _agent(seen: RuntimeStatistics) -> list[int]:
    return [seen.agents[ROOT].pid]


def _runner(seen: RuntimeStatistics) -> list[int]:
    return [seen.runner.pid]


def _session(seen: RuntimeStatistics) -> list[int]:
    return [seen.session.pid]


class Victim(msgspec.Struct, frozen=True):
    """What is killed.

    Attributes:
        pids: its processes.
        ready: processes that stand ready for agents meanwhile.
        standby: the setting by which the actor has a standby; "": it has none.
        is_crowded: many sessions are open besides that of the turn.
    """

    pids: Pids
    ready: int = 1
    standby: str = ""
    is_crowded: bool = False


VICTIMS = {
    "the agent, a process ready": Victim(_agent),
    "the agent, none ready": Victim(_agent, ready=0),
    "the Runner, and with it the agent": Victim(_runner),
    "the Runner, which has a standby, and with it the agent": Victim(_runner, standby="standby_runners"),
    "the Session actor": Victim(_session),
    "the Session actor, which has a standby": Victim(_session, standby="standby_sessions"),
    "the Runner, which has a standby, with {opened:,} sessions open": Victim(_runner, standby="standby_runners", is_crowded=True),
    "the Session actor, with {opened:,} sessions open": Victim(_session, is_crowded=True),
    "the Session actor, which has a standby, with {opened:,} sessions open": Victim(
        _session, standby="standby_sessions", is_crowded=True
    ),
}
"""By what the figures call them."""

CORE_VICTIMS = {who: victim for who, victim in VICTIMS.items() if victim.pids in (_runner, _session) and not victim.is_crowded}
"""Runners and Session actors, each with and without a standby."""

AT_ONCE = 250
"""Sessions that are opened at the same time."""


def measure(plan: Plan, victims: Mapping[str, Victim] = VICTIMS) -> list[Figure]:
    """Turns whose model is waited for when the process is killed. Not for the local engine, which has none to kill."""
    return [
        Figure(f"kill {who.format(opened=plan.opened)}: next event, median", median(_all(plan, victim)), "ms")
        for who, victim in victims.items()
    ]


def _all(plan: Plan, victim: Victim) -> list[float]:
    with TemporaryDirectory() as folder:
        model = GoModel(Path(folder), "ok")
        root: BaseAgent = LlmAgent(name=ROOT, model=model)
        standbys: dict[str, Any] = {victim.standby: True} if victim.standby else {}
        with runtime(plan, root, Path(folder), spare_hosts=victim.ready, **standbys) as rt:
            if victim.is_crowded:
                _open(rt, plan.opened)
            return [_one(rt, model, victim) for _ in range(plan.losses)]


def _open(rt: Runtime, sessions: int) -> None:
    """Have a turn in each of so many sessions."""
    for first in range(0, sessions, AT_ONCE):
        names = [f"open-{number}" for number in range(first, min(first + AT_ONCE, sessions))]
        for turn in [rt.run(user_id=name, session_id="s", message=SENTENCE) for name in names]:
            turn.result()


def _is_ready(seen: RuntimeStatistics, victim: Victim) -> bool:
    """Whether as many processes are ready and stand by as there will be: the standby of a Runner has some for agents, too."""
    standbys = [pid for pid in (*seen.runner.standby_pids, *seen.session.standby_pids) if is_running(pid)]
    expected = {"": 0, "standby_sessions": 1, "standby_runners": 1 + victim.ready}[victim.standby]
    return len(seen.runner.spare_pids) >= victim.ready and len(standbys) == expected


def _one(rt: Runtime, model: GoModel, victim: Victim) -> float:
    turn = rt.run(user_id="ada", session_id="s", message=GO)
    model.wait_until_called()
    # An agent begins before its message is on disk: a loss in between has the model asked twice, and it is released once.
    while not any(each.invocation_id == turn.invocation_id for each in rt.turns.list("ada", "s", "running")):
        time.sleep(0.01)
    while not _is_ready(rt.statistics(), victim):
        time.sleep(0.1)
    victims = victim.pids(rt.statistics())
    is_called_again, agent = rt.statistics().session.pid not in victims, rt.statistics().agents[ROOT].pid
    began_s = time.perf_counter()
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    waited_s = 0.0
    if is_called_again:
        model.wait_until_called()
        called_s = time.perf_counter()
        # The process of the agent may outlive its Runner for a moment: until it has ended its call waits at the same gate.
        while is_running(agent):
            time.sleep(0.001)
        waited_s = time.perf_counter() - called_s
    model.release()
    assert turn.result().text == "ok"
    return (time.perf_counter() - began_s - waited_s) * 1_000
