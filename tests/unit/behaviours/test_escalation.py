"""Where an escalation goes: every outcome says of its run, and of all runs below it, whether an event escalated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

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


def escalates_with_its_tool(name: str) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel([{"call": "exit_loop"}] * 9), tools=[exit_loop])


async def texts(house: RunnerFixture) -> list[str]:
    """The texts of a turn that finishes."""
    events, outcome = await house.run()
    assert isinstance(outcome, Finished)
    return [event.text for event in events if event.text]


@pytest.mark.parametrize(
    "escalates",
    [
        Escalates(name="inner"),
        escalates_with_its_tool("inner"),
        SequentialAgent(name="s", sub_agents=[Escalates(name="inner"), says("also")]),
        ParallelAgent(name="p", sub_agents=[Escalates(name="inner")]),
        LoopAgent(name="l", sub_agents=[Escalates(name="inner"), says("never")]),
        Leads(name="c", sub_agents=[Escalates(name="inner")]),
    ],
)
async def test_an_escalation_travels_up_through_every_kind_of_agent(build: Build, escalates: BaseAgent) -> None:
    house = build(LoopAgent(name="root", sub_agents=[escalates, says("last")], max_iterations=2))
    assert "last" not in await texts(house)


async def test_an_absorbed_escalation_stays_absorbed_when_the_loop_fails_after_it(build: Build) -> None:
    def fail(callback_context: CallbackContext) -> None:
        raise ValueError("kaput")

    inner = LoopAgent(name="inner_loop", sub_agents=[Escalates(name="inner")], on_escalate="absorb", after_agent_callback=fail)
    outer = LoopAgent(name="outer", sub_agents=[inner, says("next")], max_iterations=1, supervision=SKIP)
    assert await texts(build(outer)) == ["inner", "next"]


async def test_an_absorbed_escalation_ends_one_loop_and_is_not_seen_above(build: Build) -> None:
    inner = LoopAgent(name="inner_loop", sub_agents=[Escalates(name="inner"), says("never")], on_escalate="absorb")
    house = build(LoopAgent(name="root", sub_agents=[inner, says("last")], max_iterations=2))
    assert await texts(house) == ["inner", "last"] * 2


async def test_a_custom_agent_sees_in_the_outcome_what_its_child_did_and_the_loop_around_it_ends(build: Build) -> None:
    house = build(LoopAgent(name="root", sub_agents=[Leads(name="c", sub_agents=[Escalates(name="inner")]), says("last")]))
    assert await texts(house) == ["inner", "escalated"]


async def test_an_escalation_below_a_custom_agent_that_fails_then_counts_all_the_same(build: Build) -> None:
    leads = Leads(name="c", fails=True, sub_agents=[Escalates(name="inner")])
    house = build(LoopAgent(name="root", sub_agents=[leads, says("last")], max_iterations=3, supervision=SKIP))
    assert await texts(house) == ["inner", "escalated"]


async def test_an_escalation_below_a_sequence_whose_callback_fails_counts_all_the_same(build: Build) -> None:
    def breaks(_: CallbackContext) -> None:
        raise ValueError("kaput")

    sequence = SequentialAgent(name="s", sub_agents=[Escalates(name="inner")], after_agent_callback=breaks)
    house = build(LoopAgent(name="root", sub_agents=[sequence, says("last")], max_iterations=3, supervision=SKIP))
    assert await texts(house) == ["inner"]


@pytest.mark.parametrize("hook", ["before_agent_callback", "after_agent_callback"])
@pytest.mark.parametrize("content", [None, "said"])
async def test_a_callback_of_a_workflow_agent_may_escalate_for_it(build: Build, hook: str, content: str | None) -> None:
    def escalates(context: CallbackContext) -> str | None:
        context.state["called"] = True
        context.actions.escalate = True
        return content

    hooks: dict[str, Any] = {hook: escalates}
    sequence = SequentialAgent(name="s", sub_agents=[says("a"), says("b")], **hooks)
    house = build(LoopAgent(name="root", sub_agents=[sequence, says("last")], max_iterations=3))
    said = await texts(house)
    assert "last" not in said
    assert said == {
        ("before_agent_callback", "said"): ["said"],
        ("after_agent_callback", "said"): ["a", "b", "said"],
    }.get((hook, content or ""), ["a", "b"])
