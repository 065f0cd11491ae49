"""What background runs cost: a start, turns of the parent while they are under way, and the time until an end is answered."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import (
    AgentTool,
    Background,
    BaseAgent,
    Content,
    CustomAgent,
    Event,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
)
from actors.messages.event import USER
from actors.messages.json_types import JsonObject
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, interleaved, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import instant_agent, run_turn, runtime

NAME = "background"

SETTLES_S = 0.03
"""After a start the turn of the run begins, and what is measured next would wait for that."""

MANY = Background(most=1_000, most_in_all=1_000)


class Endless:
    """A model that gives no answer."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await asyncio.Event().wait()
        yield LlmResponse()


class Starter(CustomAgent):
    """Starts its child, runs it, and stores changes of the state, by turns, and says how long each took."""

    times: int

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        took: dict[str, list[float]] = {"start": [], "run": [], "append": []}
        options = Background(on_done="wait", most=1_000, most_in_all=1_000)
        for number in range(self.times + 1):
            for name, taken in took.items():
                began_s = time.perf_counter()
                if name == "start":
                    await context.start("child", "work", background=options)
                elif name == "run":
                    await context.run_agent("child")
                else:
                    await context.change_state({"number": number})
                taken.append((time.perf_counter() - began_s) * 1_000)
                await asyncio.sleep(SETTLES_S)
        # The first of each makes connections, and the child's process.
        yield Event(content=Content.of_text(json.dumps({name: median(taken[1:]) for name, taken in took.items()})))


def measure(plan: Plan) -> list[Figure]:
    """Starts, turns of the parent, and ends."""
    return [*_starts(plan), _turns(plan), _ends(plan)]


def _starts(plan: Plan) -> list[Figure]:
    child = LlmAgent(name="child", model=PatternModel([], default="done"))
    with (
        TemporaryDirectory() as folder,
        runtime(plan, Starter(name="root", times=plan.runs, sub_agents=[child]), Path(folder)) as rt,
    ):
        took = json.loads(run_turn(rt, "s", "begin")[-1].text)
    return [
        Figure(
            benchmark=NAME,
            name=f"a run is started, against {name}: median",
            value=took["start"],
            unit="ms",
            reference=took[reference],
            reference_name=name,
        )
        for reference, name in (("append", "an event is appended"), ("run", "the agent is run as a child"))
    ]


async def begin_none(request: str) -> JsonObject:
    """Answer as if a run had begun: a session without runs has as much to remember as one with many."""
    return {"run": "0123456789abcdef", "status": "running"}


def _parent(helper: BaseAgent) -> LlmAgent:
    """An agent that has a helper work for it where it is asked to."""
    calls = [(f"^{name}$", {"call": name, "args": {"request": "work"}}) for name in ("helper", "begin_none")]
    tools = [AgentTool(helper, background=MANY), begin_none]
    return LlmAgent(name="root", model=PatternModel(calls, default="ok"), tools=tools)


def _turns(plan: Plan) -> Figure:
    """Turns of a session without runs, and of one with many, in one deployment."""
    helper = LlmAgent(name="helper", description="works", model=Endless())
    with TemporaryDirectory() as folder, runtime(plan, _parent(helper), Path(folder)) as rt:
        for _ in range(plan.under_way):
            run_turn(rt, "busy", "helper")
            run_turn(rt, "idle", "begin_none")
        contestants = {name: lambda name=name: run_turn(rt, name) for name in ("idle", "busy")}
        interleaved(contestants, 10)
        samples = interleaved(contestants, plan.turns)
    return Figure(
        benchmark=NAME,
        name=f"a turn with {plan.under_way} runs under way: median",
        value=median(samples["busy"]),
        unit="ms",
        reference=median(samples["idle"]),
        reference_name="without runs",
    )


def _ends(plan: Plan) -> Figure:
    """From the end of a run to the parent's answer."""
    helper = instant_agent().model_copy(update={"name": "helper", "description": "works"})
    with TemporaryDirectory() as folder, runtime(plan, _parent(helper), Path(folder)) as rt:
        took_ms = [_answered_ms(rt, f"s{number}") for number in range(plan.runs + 1)]
        turns_ms = interleaved({"turn": lambda: run_turn(rt, "s0")}, plan.turns)["turn"]
    return Figure(
        benchmark=NAME,
        name="from the end of a run to the parent's answer: median",
        value=median(took_ms[1:]),
        unit="ms",
        reference=median(turns_ms),
        reference_name="a turn",
    )


def _answered_ms(rt: Runtime, session_id: str) -> float:
    """Start a run, and wait until the parent has answered its end. Returns the time from the end to the answer."""
    run_turn(rt, session_id, "helper")
    [run] = rt.background.wait(USER, session_id)
    while True:
        session = rt.sessions.get(USER, session_id)
        assert session is not None
        events = session.events
        if (events[-2].custom_metadata or {}).get("run") and events[-1].author == "root":
            return (events[-1].timestamp - run.ended_s) * 1_000
        time.sleep(0.002)
