"""What a long-running tool returns is not the answer: its model hears it, and then the turn waits (semantics.md section 4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import get_args

import pytest

from actors import (
    AgentTool,
    BaseAgent,
    CustomAgent,
    Event,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LongRunningFunctionTool,
    ToolContext,
    tool,
)
from actors.messages.protocol.runs import Finished
from actors.testing import PatternModel
from tests.support.agents.conversation_tools import look_up
from tests.support.agents.workflow_agents import answer, asks, asks_and_hears, loop, par, run, says, seq, short, state
from tests.support.fixtures.lossy_engine import Loss, Victim, lossy_runtime
from tests.support.runtimes import Deploy
from tests.support.vectors.vector_agents import lro, lrp

pytestmark = pytest.mark.sampled(2, of="module")

ASKED = ["a call:lrp !lro", "a resp:lrp", "a a waits"]


@tool(long_running=True)
def unreachable() -> dict[str, str]:
    """Raise, as the person cannot be asked."""
    raise OSError("nobody is there")


def hands_over(to: BaseAgent) -> LlmAgent:
    """Hands over when it has heard that the answer is pending."""
    model = PatternModel([("tool:lrp.*pending", {"transfer": to.name}), ("tool:lrp", "a knows")], default={"call": "lrp"})
    return LlmAgent(name="a", model=model, tools=[LongRunningFunctionTool(lrp)], sub_agents=[to])


@tool(require_confirmation=True)
def allowed() -> str:
    """Do what needs consent."""
    return "done"


@tool
def asking(tool_context: ToolContext) -> str | None:
    """Ask the user something."""
    if tool_context.input is None:
        tool_context.request_input({"message": "Which?"})
        return None
    return "done"


@tool
def confirming(tool_context: ToolContext) -> str:
    """Ask the user for consent."""
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint="May I?")
    return "done"


def asks_and_hands_over(waits: FunctionTool, to: BaseAgent) -> LlmAgent:
    """Hands over in the response that makes a call which waits."""
    both = {"parts": [{"call": waits.name}, {"transfer": to.name}]}
    model = PatternModel([(f"tool:{waits.name}", "a knows")], default=both)
    return LlmAgent(name="a", model=model, tools=[waits], sub_agents=[to])


class Runs(CustomAgent):
    """Runs its children by hand, one after the other."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for child in ("a", "b"):
            if not isinstance(await context.run_agent(child), Finished):
                return
        yield Event()


TREES: dict[str, tuple[Callable[[], BaseAgent], list[str], list[str]]] = {
    "alone": (lambda: asks_and_hears("a"), ASKED, ["a a knows"]),
    "sequence": (lambda: seq("s", asks_and_hears("a"), says("b")), ASKED, ["a a knows", "b b"]),
    "nested": (lambda: seq("s", seq("t", asks_and_hears("a"), says("b")), says("c")), ASKED, ["a a knows", "b b", "c c"]),
    "loop": (lambda: seq("s", loop("l", asks_and_hears("a"), says("b"), times=1), says("c")), ASKED, ["a a knows", "b b", "c c"]),
    "parallel": (lambda: seq("s", par("p", asks_and_hears("a")), says("b")), ASKED, ["a a knows", "b b"]),
    "by hand": (
        lambda: seq("s", Runs(name="r", sub_agents=[asks_and_hears("a"), says("b")]), says("c")),
        ASKED,
        ["a a knows", "b b", "c c"],
    ),
    "before a transfer": (
        lambda: seq("s", hands_over(says("b")), says("c")),
        [*ASKED[:2], "a call:transfer_to_agent", "a resp:transfer_to_agent !transfer=b", "b b"],
        ["a a knows", "c c"],
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_what_stands_behind_a_pending_call_runs_after_the_answer(deploy: Deploy, name: str) -> None:
    tree, before, after = TREES[name]
    with deploy(tree()) as rt:
        assert run(rt, "go") == (before, "Paused")
        [call] = rt.pending(user_id="ada", session_id="s1")
        assert (call.agent, call.name) == ("a", "lrp")
        turn = rt.answer(call, {"status": "approved"})
        events = turn.result().events
        assert [line for line in short(events) if line] == after
        assert {event.invocation_id for event in events} == {call.invocation_id}
        assert rt.pending(user_id="ada", session_id="s1") == []


@pytest.mark.sampled(8, full=4)
@pytest.mark.parametrize("who", get_args(Victim))
@pytest.mark.parametrize("name", ["sequence", "before a transfer"])
def test_it_waits_whichever_actor_is_lost(tmp_path: Path, name: str, who: Victim) -> None:
    tree, before, after = TREES[name]

    def play(folder: Path, losses: list[Loss]) -> int:
        folder.mkdir()
        rt, engine = lossy_runtime(tree(), folder, losses)
        with rt:
            assert run(rt, "go")[1] == "Paused", losses
            assert run(rt, answer(rt, "a"))[1] == "Finished", losses
            session = rt.sessions.get("ada", "s1")
            assert session is not None
            said = [event for event in session.events if event.author != "user" and event.content is not None]
            assert short(said) == [*before, *after], losses
            return engine.messages

    messages = play(tmp_path / "undisturbed", [])
    for at in range(0, messages, 3):
        for is_before in (True, False):
            play(tmp_path / f"{at} {is_before}", [Loss(at, who, is_before)])


def test_an_error_of_the_tool_is_an_answer(deploy: Deploy) -> None:
    model = PatternModel([("tool:unreachable.*nobody", "a gives up")], default={"call": "unreachable"})
    with deploy(seq("s", LlmAgent(name="a", model=model, tools=[unreachable]), says("b"))) as rt:
        events, how = run(rt, "go")
        assert (events[-2:], how) == (["a a gives up", "b b"], "Finished")


def test_a_call_beside_one_that_is_complete_waits(deploy: Deploy) -> None:
    both = {"parts": [{"call": "lrp"}, {"call": "look_up", "args": {"order": "1"}}]}
    model = PatternModel([("tool:lrp.*pending", "a waits"), ("tool:lrp", "a knows")], default=both)
    tools = [LongRunningFunctionTool(lrp), look_up]
    with deploy(seq("s", LlmAgent(name="a", model=model, tools=tools), says("b"))) as rt:
        assert run(rt, "go")[1] == "Paused"
        assert [call.name for call in rt.pending(user_id="ada")] == ["lrp"]
        assert run(rt, answer(rt, "a")) == (["a a knows", "b b"], "Finished")
        assert state(rt)["seen"] == 1


def test_of_two_calls_each_has_to_be_answered(deploy: Deploy) -> None:
    model = PatternModel(
        [("tool:lrp.*pending", "a waits"), ("tool:lrp", "a knows")], default={"parts": [{"call": "lrp"}, {"call": "lrp"}]}
    )
    with deploy(seq("s", LlmAgent(name="a", model=model, tools=[LongRunningFunctionTool(lrp)]), says("b"))) as rt:
        assert run(rt, "go")[1] == "Paused"
        first, second = rt.pending(user_id="ada")
        told = rt.answer(first, {"status": "approved"}).result()
        assert (type(told.outcome).__name__, "b b" in short(told.events)) == ("Paused", False)
        assert short(rt.answer(second, {"status": "approved"}).result().events)[-1] == "b b"


def test_one_that_waits_holds_the_turn_also_when_another_one_is_answered(deploy: Deploy) -> None:
    with deploy(seq("s", hands_over(asks("b")), says("c"))) as rt:
        assert run(rt, "go")[1] == "Paused"
        calls = {call.agent: call for call in rt.pending(user_id="ada")}
        told = rt.answer(calls["b"], {"ok": True}).result()
        assert (short(told.events), type(told.outcome).__name__) == (["b b knows"], "Paused")
        assert short(rt.answer(calls["a"], {"ok": True}).result().events) == ["a a knows", "c c"]


@pytest.mark.parametrize(
    "waits", [LongRunningFunctionTool(lro), LongRunningFunctionTool(lrp), allowed, asking, confirming], ids=lambda each: each.name
)
def test_a_call_beside_a_transfer_holds_what_stands_behind(deploy: Deploy, waits: FunctionTool) -> None:
    with deploy(seq("s", asks_and_hands_over(waits, says("b")), says("c"))) as rt:
        events, how = run(rt, "go")
        assert (events[-1], how) == ("b b", "Paused")
        [call] = rt.pending(user_id="ada")
        assert (call.agent, call.name) == ("a", waits.name)
        turn = rt.answer(call, {"confirmed": True, "by": "ada"})
        assert [line for line in short(turn.result().events) if line][-2:] == ["a a knows", "c c"]
        assert rt.pending(user_id="ada") == []


def test_an_agent_that_is_asked_as_a_tool_cannot_wait_and_says_so(deploy: Deploy) -> None:
    model = PatternModel(
        [("tool:a.*cannot get as a tool; it says: a waits", "no answer yet")], default={"call": "a", "args": {"request": "go"}}
    )
    with deploy(LlmAgent(name="root", model=model, tools=[AgentTool(agent=asks_and_hears("a"))])) as rt:
        events, how = run(rt, "go")
        assert (events[-1], how) == ("root no answer yet", "Finished")
