"""Sessions that go through the same agents at the same time have nothing to do with each other."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator

from actors import Content, CustomAgent, Event, EventActions, InvocationContext, LlmAgent
from actors.messages.llm import LlmRequest, LlmResponse
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.agents.conversation_tools import Gate
from tests.support.agents.workflow_agents import loop, par, says, seq
from tests.support.machine.load import is_within
from tests.support.runtimes import Deploy, stored

SECRETS = [f"secret-{number}-" for number in range(10)]


class EchoModel:
    """A model that answers with all it has been shown: the texts of the conversation, and its instruction."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        seen = " ".join([request.system_instruction, *(content.text for content in request.contents)])
        yield LlmResponse(content=Content.of_text(f"{request.agent} saw {seen}", role="model"))


class KeepingAgent(CustomAgent):
    """Writes the user's words into state, and tells them and what state says."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        said = context.user_content.text
        yield Event(actions=EventActions(state_delta={"kept": context.state.get("kept", "") + said, "temp:said": said}))
        told = f"{said} {context.state['temp:said']} {context.state['kept']}"
        yield Event(content=Content.of_text(told, role="model"))


def test_ten_sessions_at_once_do_not_mix_state_history_or_branches(deploy: Deploy) -> None:
    model = EchoModel()
    both = par(
        "p", LlmAgent(name="a", model=model, instruction="Kept: {kept}."), LlmAgent(name="b", model=model, instruction="{kept}")
    )
    root = loop("lp", seq("s", KeepingAgent(name="keeper"), both), says("c"), times=2)
    with deploy(root) as rt:
        for _ in range(2):
            turns = [rt.run(user_id="ada", session_id=secret, message=secret) for secret in SECRETS]
            for turn in turns:
                events = [event for event in turn.result().events if event.text]
                assert [event.author for event in events].count("keeper") == 2
                assert {event.branch for event in events} == {None, "p.a", "p.b"}
        for secret in SECRETS:
            session = rt.sessions.get("ada", secret)
            assert session is not None
            assert session.state == {"kept": secret * 4}
            told = " ".join(event.text for event in session.events)
            assert told.count(secret) > 20
            assert not [other for other in SECRETS if other != secret and other in told]
            # Branches do not see each other, neither in a turn nor in those before it.
            assert not [event for event in session.events if event.branch == "p.a" and "b saw" in event.text]
            assert not [event for event in session.events if event.branch == "p.b" and "a saw" in event.text]


def test_a_tool_that_blocks_in_one_session_delays_no_other(deploy: Deploy, gate: Gate) -> None:
    model = PatternModel([("sleep", {"call": "wait"}), ("tool:", "good morning")], default="hello")
    with deploy(LlmAgent(name="root", model=model, tools=[gate.tool()])) as rt:
        _ten_turns_s(rt)
        usual_s = _ten_turns_s(rt)
        asleep = rt.run(user_id="ada", session_id="sleeper", message="sleep")
        events = iter(asleep)
        assert any(next(events).function_calls())
        try:
            beside_s = _ten_turns_s(rt)
            assert any(stored(rt, "sleeper")[-1].function_calls()), "the tool has ended although its gate was closed"
        finally:
            gate.open()
        # The middle one of ten: a machine that was busy elsewhere for a moment does not count.
        assert is_within(statistics.median(beside_s), statistics.median(usual_s) + 0.05)
        assert [event.text for event in events] == ["", "good morning"]


def _ten_turns_s(rt: Runtime) -> list[float]:
    """How long turns of another session take, in seconds."""
    durations_s = []
    for _ in range(10):
        began_s = time.perf_counter()
        assert rt.run(user_id="ada", session_id="other", message="hi").result().text == "hello"
        durations_s.append(time.perf_counter() - began_s)
    return durations_s
