"""Where an escalation goes: every outcome says of its run, and of all runs below it, whether an event escalated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from actors import (
    BaseAgent,
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    EventActions,
    Finished,
    InvocationContext,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    Supervision,
    exit_loop,
)
from actors.testing import ScriptedModel
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.vectors.vector_agents import SayingAgent

Build = Callable[..., RunnerFixture]

SKIP = Supervision(strategy="skip")


class Escalates(CustomAgent):
    """Says its name with an event that escalates."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text(self.name, role="model"), actions=EventActions(escalate=True))


class Leads(CustomAgent):
    """Runs its child `inner`, says whether that has escalated, and may fail then.

    Attributes:
        fails: it does.
    """

    fails: bool = False

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        outcome = await context.run_agent("inner")
        yield Event(content=Content.of_text("escalated" if outcome.escalated else "not escalated", role="model"))
        if self.fails:
            raise ValueError("kaput")


def says(name: str) -> SayingAgent:
    return SayingAgent(name=name, say=[name])


def fails(callback_context: CallbackContext) -> None:
    raise ValueError("kaput")


def absorbing(*agents: BaseAgent, callback: Callable[[CallbackContext], None] | None = None) -> LoopAgent:
    return LoopAgent(name="absorbing", sub_agents=agents, on_escalate="absorb", after_agent_callback=callback)


def calling(content: str | None) -> Callable[[CallbackContext], str | None]:
    """A callback that escalates for its agent, perhaps with a content."""

    def escalate(callback_context: CallbackContext) -> str | None:
        callback_context.state["called"] = True
        callback_context.actions.escalate = True
        return content

    return escalate


def two(before: str | None = "not called", after: str | None = "not called") -> SequentialAgent:
    """A sequence of which a callback escalates."""
    hooks = [None if each == "not called" else calling(each) for each in (before, after)]
    return SequentialAgent(
        name="s", sub_agents=[says("a"), says("b")], before_agent_callback=hooks[0], after_agent_callback=hooks[1]
    )


INNER = Escalates(name="inner")
TOOL = LlmAgent(name="inner", model=ScriptedModel([{"call": "exit_loop"}] * 9), tools=[exit_loop])

CASES: dict[str, tuple[BaseAgent, list[str]]] = {
    "itself": (INNER, ["inner"]),
    "its tool": (TOOL, []),
    "in a sequence": (SequentialAgent(name="s", sub_agents=[INNER, says("also")]), ["inner", "also"]),
    "in a parallel": (ParallelAgent(name="p", sub_agents=[INNER]), ["inner"]),
    "in a loop": (LoopAgent(name="l", sub_agents=[INNER, says("never")]), ["inner"]),
    "below a custom agent, which sees it": (Leads(name="c", sub_agents=[INNER]), ["inner", "escalated"]),
    "below a custom agent that fails then": (Leads(name="c", fails=True, sub_agents=[INNER]), ["inner", "escalated"]),
    "in a sequence whose callback fails": (
        SequentialAgent(name="s", sub_agents=[INNER], after_agent_callback=fails),
        ["inner"],
    ),
    "before a sequence": (two(before=None), ["a", "b"]),
    "before a sequence, with a content": (two(before="said"), ["said"]),
    "after a sequence": (two(after=None), ["a", "b"]),
    "after a sequence, with a content": (two(after="said"), ["a", "b", "said"]),
    "absorbed": (absorbing(INNER, says("never")), ["inner", "last"] * 2),
    "absorbed by a loop that fails then": (absorbing(INNER, callback=fails), ["inner", "last"] * 2),
}
"""Agents below which something escalates, and what a loop around them says."""


@pytest.mark.parametrize(("agent", "said"), CASES.values(), ids=CASES)
async def test_an_escalation_ends_the_loop_around_it_unless_another_one_absorbs_it(
    build: Build, agent: BaseAgent, said: list[str]
) -> None:
    house = build(LoopAgent(name="root", sub_agents=[agent, says("last")], max_iterations=2, supervision=SKIP))
    events, outcome = await house.run()
    assert isinstance(outcome, Finished)
    assert [event.text for event in events if event.text] == said
