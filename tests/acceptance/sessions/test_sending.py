"""Agents that send each other messages: durable, in their order, each once (docs/turns.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import CustomAgent, Event, InvocationContext, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from actors.errors import OverloadedError, UnknownAgentError
from actors.testing import ScriptedModel
from tests.acceptance.sessions.test_background import answered, ask, log
from tests.support.agents.conversation_agents import said
from tests.support.runtimes import Deploy, stored


class Teller(CustomAgent):
    """Sends so many messages to another agent."""

    to: str
    messages: int = 3

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for number in range(self.messages):
            await context.send(self.to, f"{self.name} {number}")
        yield said("told")


class Hearer(CustomAgent):
    """Says what it hears, and from whom."""

    messages: int = 3

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for _ in range(self.messages):
            heard = await context.next_message()
            yield said(f"{heard.sender}: {heard.text}")


def words(deployed_log: list[str], agent: str) -> list[str]:
    return [line.partition(": ")[2] for line in deployed_log if line.startswith(f"{agent}: ")]


def test_messages_come_in_their_order_each_once(deploy: Deploy) -> None:
    tellers = [Teller(name=name, to="hearer") for name in ("ann", "bob")]
    root = ParallelAgent(name="root", sub_agents=[*tellers, Hearer(name="hearer", messages=6)])
    with deploy(root) as rt:
        ask(rt)
        heard = words(log(rt), "hearer")
        assert sorted(heard) == [f"{name}: {name} {number}" for name in ("ann", "bob") for number in range(3)]
        for name in ("ann", "bob"):
            assert [line for line in heard if line.startswith(name)] == [f"{name}: {name} {number}" for number in range(3)]
        assert rt.schedules.list(user_id="ada") == []


def test_an_agent_reads_what_was_sent_before_it_ran(deploy: Deploy, caplog: pytest.LogCaptureFixture) -> None:
    root = SequentialAgent(name="root", sub_agents=[Teller(name="ann", to="hearer"), Hearer(name="hearer")])
    with deploy(root) as rt:
        ask(rt)
        assert words(log(rt), "hearer") == [f"ann: ann {number}" for number in range(3)]
    # Nothing is wrong when they wait.
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == []


def test_each_run_of_an_agent_sends_anew(deploy: Deploy) -> None:
    teller = Teller(name="ann", to="hearer", messages=1)
    root = ParallelAgent(
        name="root",
        sub_agents=[LoopAgent(name="loop", sub_agents=[teller], max_iterations=3), Hearer(name="hearer")],
    )
    with deploy(root) as rt:
        ask(rt)
        assert words(log(rt), "hearer") == ["ann: ann 0"] * 3


def test_no_other_agent_sees_a_message(deploy: Deploy) -> None:
    model = ScriptedModel(["I hear nothing"])
    root = SequentialAgent(
        name="root",
        sub_agents=[
            Teller(name="ann", to="hearer", messages=1),
            ParallelAgent(name="both", sub_agents=[Hearer(name="hearer", messages=1), LlmAgent(name="other", model=model)]),
        ],
    )
    with deploy(root) as rt:
        ask(rt)
        assert not any("ann 0" in content.text for content in model.requests[0].contents)


def test_a_message_to_an_agent_that_does_not_run_begins_its_turn(deploy: Deploy) -> None:
    model = ScriptedModel(["I have heard"])
    root = LlmAgent(
        name="root",
        model=ScriptedModel([{"transfer": "ann"}]),
        sub_agents=[Teller(name="ann", to="writer", messages=1), LlmAgent(name="writer", model=model)],
    )
    with deploy(root) as rt:
        ask(rt)
        answered(rt, "writer: I have heard")
        assert model.requests[0].contents[-1].text == "Agent ann says:ann 0"
        assert len([turn for turn in rt.turns.list() if turn.session_id == "s1"]) == 2


def test_code_that_takes_one_message_leaves_the_others(deploy: Deploy) -> None:
    root = SequentialAgent(name="root", sub_agents=[Teller(name="ann", to="hearer"), Hearer(name="hearer", messages=1)])
    with deploy(root) as rt:
        ask(rt)
        assert words(log(rt), "hearer") == ["ann: ann 0"]
    later = SequentialAgent(name="root", sub_agents=[Hearer(name="hearer", messages=2)])
    with deploy(later) as rt:
        ask(rt)
        assert words(log(rt), "hearer") == ["ann: ann 0", "ann: ann 1", "ann: ann 2"]


def test_a_message_that_was_not_read_waits_for_the_next_run(deploy: Deploy) -> None:
    root = SequentialAgent(
        name="root", sub_agents=[Hearer(name="hearer", messages=0), Teller(name="ann", to="hearer", messages=1)]
    )
    with deploy(root) as rt:
        ask(rt)
    later = SequentialAgent(name="root", sub_agents=[Hearer(name="hearer", messages=1)])
    with deploy(later) as rt:
        ask(rt)
        assert words(log(rt), "hearer") == ["ann: ann 0"]
        assert [event.branch for event in stored(rt) if event.text == "ann 0"] == [None]


class Flood(CustomAgent):
    """Sends as many messages as may wait, and says how many that were."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        sent = 0
        try:
            while True:
                await context.send("sink", "more")
                sent += 1
        except OverloadedError:
            yield said(f"{sent}")


class Sink(CustomAgent):
    """Reads all that wait."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        while await context.steering():
            pass
        yield said("read")


@pytest.mark.full
def test_as_many_messages_to_an_agent_wait_as_may(tmp_path: Path) -> None:
    root = LoopAgent(name="root", sub_agents=[Flood(name="flood"), Sink(name="sink")], max_iterations=2)
    with Deploy("local", tmp_path)(root) as rt:
        ask(rt)
        assert words(log(rt), "flood") == ["1000", "1000"]
        assert words(log(rt), "user").count("more") == 2_000


def test_an_unknown_agent_gets_no_message(deploy: Deploy) -> None:
    with deploy(Teller(name="root", to="nobody")) as rt, pytest.raises(UnknownAgentError, match="nobody"):
        ask(rt)
