"""A tree of many agents in rotation, whose model takes its time: what becomes of it when there are more agents than cores.

A topic goes to one of the desks, one after the other. A desk plans, has all its researchers search at once, writes and criticises
twice, and edits: 15 runs of agents, 36 events. With many topics at once every agent of the tree is in use again and again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from actors import BaseAgent, LlmAgent, LlmRequest, LlmResponse, LoopAgent, ParallelAgent, SequentialAgent, exit_loop
from actors.testing import PatternModel, Reply, responses
from runtime import Runtime
from tests.benchmarks.figures import Figure, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import ROOT, runtime

NAME = "working_set"

RESEARCHERS = 5
EVENTS = 21 + 3 * RESEARCHERS
"""Of a topic, without the user's."""
COLD = 5
"""Topics for a tree of which no agent lives yet."""


class Desk(PatternModel):
    """A pattern model that takes its time, as models behind a network do, and has a critic let the second draft pass."""

    def __init__(self, after_s: float, patterns: list[tuple[str, Reply]]) -> None:
        super().__init__(patterns, default="x" * 200)
        self._after_s = after_s

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await asyncio.sleep(self._after_s)
        if request.agent.startswith("critic") and any(content.role == "model" for content in request.contents):
            for response in responses({"call": "exit_loop"}, stream=stream):
                yield response
            return
        async for response in super().generate(request, stream=stream):
            yield response


def search(query: str) -> str:
    """Search the library."""
    return f"three books about {query}"


def desk(number: int, after_s: float) -> BaseAgent:
    """The agents that work on a topic."""
    model, searches = Desk(after_s, []), Desk(after_s, [("", {"call": "search", "args": {"query": "that"}})])

    def llm(role: str, **options: object) -> LlmAgent:
        return LlmAgent.model_validate({"name": f"{role}_{number}", "model": model} | options)

    researchers = [llm(f"researcher_{each}", model=searches, tools=[search]) for each in range(RESEARCHERS)]
    draft = [llm("writer"), llm("critic", tools=[exit_loop])]
    return SequentialAgent(
        name=f"desk_{number}",
        sub_agents=[
            llm("planner", model=searches, tools=[search]),
            ParallelAgent(name=f"library_{number}", sub_agents=researchers),
            LoopAgent(name=f"drafts_{number}", max_iterations=4, sub_agents=draft),
            llm("editor", model=searches, tools=[search]),
        ],
    )


def tree(desks: int, after_s: float) -> LlmAgent:
    """A root that hands each topic to its desk."""
    ways: list[tuple[str, Reply]] = [(rf"^desk_{number}:", {"transfer": f"desk_{number}"}) for number in range(desks)]
    return LlmAgent(name=ROOT, model=Desk(after_s, ways), sub_agents=[desk(number, after_s) for number in range(desks)])


class Rotation(msgspec.Struct, frozen=True):
    """What a tree did in one Runtime.

    Attributes:
        cold_s: of the first topics, when no agent lives.
        rates: topics a second, when all agents have been spoken to, by how many run side by side.
        activations: of all agents, by agent.
        processes: with agents.
        stop_s: how long leaving takes.
    """

    cold_s: float
    rates: Mapping[int, float]
    activations: float
    processes: int
    stop_s: float


def measure(plan: Plan) -> list[Figure]:
    """The same topics with the local engine and then with that of the plan, with default settings."""
    local = asyncio.run(_rotate(msgspec.structs.replace(plan, engine="local")))
    ours = asyncio.run(_rotate(plan)) if plan.has_floor else local
    agents = _agents(plan)
    return [
        _beside(f"{COLD} topics, none of {agents} agents lives", ours.cold_s, "s", local.cold_s),
        *(
            _beside(f"{at_once} topics at once, {agents} agents", ours.rates[at_once], "topics/s", local.rates[at_once])
            for at_once in plan.topics_at_once
        ),
        Figure("activations by agent", ours.activations, ""),
        Figure("processes with agents", ours.processes, ""),
        _beside("Runtime stops", ours.stop_s, "s", local.stop_s),
    ]


def _beside(name: str, value: float, unit: str, local: float) -> Figure:
    return Figure(name, value, unit, local, "local engine")


def _agents(plan: Plan) -> int:
    return 1 + plan.desks * (7 + RESEARCHERS)


async def _rotate(plan: Plan) -> Rotation:
    with TemporaryDirectory() as folder:
        rt = runtime(plan, tree(plan.desks, plan.call_s), Path(folder))
        rates: dict[int, float] = {}
        await asyncio.to_thread(rt.start)
        try:
            # The root is no part of the question: how fast a single agent starts is measured elsewhere.
            cold_s = await _topics(rt, plan, range(COLD), COLD)
            await _topics(rt, plan, range(COLD, COLD + plan.desks), plan.desks)
            began = COLD + plan.desks
            for at_once in plan.topics_at_once:
                topics = range(began, began + max(plan.topics, 2 * at_once))
                rates[at_once] = len(topics) / await _topics(rt, plan, topics, at_once)
                began = topics.stop
            seen = await rt.aio.statistics()
        finally:
            stop_s = await asyncio.to_thread(timed_ms, rt.close) / 1_000
    counts = seen.runner.counts
    activations = counts.get("activations", _agents(plan)) / _agents(plan)
    return Rotation(cold_s, rates, activations, len(seen.processes) or 1, stop_s)


async def _topics(rt: Runtime, plan: Plan, numbers: range, at_once: int) -> float:
    """Have topics done, and return the seconds that it took."""
    places = asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with places:
            message = f"desk_{number % plan.desks}: topic {number}"
            events = [event async for event in rt.run(user_id="reader", session_id=f"topic {number}", message=message)]
            assert len(events) == EVENTS, len(events)

    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in numbers:
            group.create_task(one(number))
    return time.perf_counter() - began_s
