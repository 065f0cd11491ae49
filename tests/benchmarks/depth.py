"""What an event costs by the depth of the agent that makes it: events do not climb the tree, so it should not matter."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import BaseAgent, LlmAgent, SequentialAgent, tool
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import USER
from actors.messages.llm import LlmRequest, LlmResponse
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, interleaved, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import run_turn, runtime, write_history
from tests.support.vectors.vector_agents import SayingAgent

NAME = "depth"
CALLS = 5
"""Tool calls of a turn: twice as many events, and the answer."""
_SPOKEN = 200
"""Events of one run of a custom agent."""


@tool
async def look() -> str:
    """Look."""
    return "seen"


class ToolCallingModel:
    """A model that makes so many calls one after the other, then answers."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Call, or answer when all calls of this turn have been made."""
        made = 0
        while any(part.function_response for part in request.contents[-1 - 2 * made].parts):
            made += 1
        if made < CALLS:
            yield LlmResponse(content=Content(role="model", parts=[Part(function_call=FunctionCall(name="look"))]))
        else:
            yield LlmResponse(content=Content.of_text("ok", role="model"))


def measure(plan: Plan) -> list[Figure]:
    """At level 1 and far down, by turns: under LLM agents, and inside of workflow agents that each have an actor of their own."""
    return [*_under_agents(plan), *_inside_workflows(plan)]


def _under_agents(plan: Plan) -> list[Figure]:
    levels = (1, plan.depth)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for level in levels:
            # The agent that spoke last gets the next message.
            write_history(folder, {f"level-{level}": 2}, agent=f"level_{level}")
        with runtime(plan, chain(plan.depth), folder) as rt:
            contestants = {str(level): _turn(rt, level) for level in levels}
            interleaved(contestants, 10)
            samples = interleaved(contestants, plan.turns // 4 + 1)
    shallow, deep = (median(samples[str(level)]) / (2 * CALLS + 2) for level in levels)
    return _pair("an LLM agent with tools", plan.depth, shallow, deep)


def chain(depth: int) -> BaseAgent:
    """A root and so many levels below it, and one more, so that all but the first and the last have as many to transfer to."""
    below: list[BaseAgent] = []
    for level in range(depth + 1, -1, -1):
        below = [LlmAgent(name=f"level_{level}", model=ToolCallingModel(), tools=[look], sub_agents=below)]
    return below[0]


def _turn(rt: Runtime, level: int) -> Callable[[], object]:
    def turn() -> None:
        events = run_turn(rt, f"level-{level}")
        assert {event.author for event in events} == {f"level_{level}"}, events
        assert len(events) == 2 * CALLS + 1

    return turn


def _inside_workflows(plan: Plan) -> list[Figure]:
    samples_ms: dict[str, list[float]] = {"shallow": [], "deep": []}
    with TemporaryDirectory() as folder, runtime(plan, nested(plan.depth), Path(folder)) as rt:
        for _ in range(plan.loops + 1):
            for child, taken in samples_ms.items():
                taken.append(_event_ms(rt, child))
    shallow, deep = (median(taken[1:]) for taken in samples_ms.values())
    return _pair("a custom agent inside of workflows", plan.depth, shallow, deep)


def nested(depth: int) -> BaseAgent:
    """A root that transfers to `shallow`, with a speaker below it, or to `deep`, with one many levels down, as the user says."""
    shallow = SequentialAgent(name="shallow", sub_agents=[_speaker("speaker_of_shallow")])
    deep: BaseAgent = _speaker("speaker_of_deep")
    for level in range(depth - 1, 0, -1):
        deep = SequentialAgent(name="deep" if level == 1 else f"deep_{level}", sub_agents=[deep])
    model = PatternModel([(child, {"transfer": child}) for child in ("shallow", "deep")])
    return LlmAgent(name="root", model=model, sub_agents=[shallow, deep])


def _speaker(name: str) -> BaseAgent:
    return SayingAgent(name=name, say=["ok"] * _SPOKEN)


def _event_ms(rt: Runtime, child: str) -> float:
    """From the first of the speaker's events to the last: the way down to it is left out."""
    at_s = [
        time.perf_counter()
        for event in rt.run(user_id=USER, session_id="s", message=child)
        if event.author == f"speaker_of_{child}"
    ]
    assert len(at_s) == _SPOKEN
    return (at_s[-1] - at_s[0]) * 1_000 / (_SPOKEN - 1)


def _pair(who: str, depth: int, shallow: float, deep: float) -> list[Figure]:
    name = f"an event of {who}"
    far = Figure(f"{name}, level {depth}", deep, "ms", shallow, "level 1")
    return [Figure(f"{name}, level 1", shallow, "ms"), far]
