"""What flows cost: a round of a large one beside its model, and three slow tasks that need not wait for each other."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import Content, Flow, FunctionCall, LlmAgent, LlmRequest, LlmResponse, Part, RunConfig, Task
from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, median, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import runtime

NAME = "flow"
AGENTS = 10
SLOW_S = 1.0


class TaskFinishingModel:
    """A model that finishes the first of its tasks, at once or after a while."""

    def __init__(self, after_s: float = 0.0) -> None:
        self.after_s = after_s

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Finish the first task that there is a tool for."""
        if self.after_s:
            await asyncio.sleep(self.after_s)
        finish = next(tool.name for tool in request.tools if tool.name.startswith("succeed_"))
        made = FunctionCall(name=finish, args={"result": "done"})
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=made)]))


def measure(plan: Plan) -> list[Figure]:
    """Runs of a random graph whose model answers at once; then of three tasks with a slow model, all agents living already."""
    return [*_graph(plan), *_side_by_side(plan)]


def graph(tasks: int) -> Flow:
    """Tasks that need up to three earlier ones each, the same every time; each may be done by two agents."""
    chance = random.Random(7)
    agents = [LlmAgent(name=f"agent_{number}", model=TaskFinishingModel()) for number in range(AGENTS)]
    made: list[Task] = []
    for number in range(tasks):
        needs = chance.sample(made, chance.randint(0, min(3, len(made))))
        made.append(Task("do it", name=f"t{number}", depends_on=needs, agents=chance.sample(agents, 2)))
    return Flow(made, agents=agents, name="graph")


def _graph(plan: Plan) -> list[Figure]:
    with TemporaryDirectory() as folder, runtime(plan, graph(plan.tasks), Path(folder)) as rt:
        _run(rt, "warm")
        runs_ms = [timed_ms(lambda: _run(rt, f"s{number}")) for number in range(plan.flows)]  # noqa: B023
    return [Figure(f"{plan.tasks} tasks, {AGENTS} agents: a round", median(runs_ms) / plan.tasks, "ms")]


def _side_by_side(plan: Plan) -> list[Figure]:
    slow_s = SLOW_S if plan.has_floor else 0.001
    agents = [LlmAgent(name=f"agent_{number}", model=TaskFinishingModel(slow_s)) for number in range(3)]
    flow = Flow([Task("do it", agents=[agent]) for agent in agents], name="slow")
    with TemporaryDirectory() as folder, runtime(plan, flow, Path(folder)) as rt:
        cold_ms = timed_ms(lambda: _run(rt, "cold"))
        warm_ms = timed_ms(lambda: _run(rt, "warm"))
    name = f"three tasks side by side, a model of {slow_s:g} s"
    return [
        Figure(name, warm_ms, "ms"),
        Figure(f"{name}: the first time, with four processes to start", cold_ms, "ms"),
    ]


def _run(rt: Runtime, session_id: str) -> None:
    result = rt.run(user_id="user", session_id=session_id, message="go", run_config=RunConfig(max_llm_calls=0)).result()
    assert {task.status for task in result.tasks.values()} == {"successful"}
