"""Tools that are run only when the user has said yes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors import (
    AgentTool,
    Content,
    Event,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    LlmAgent,
    ParallelAgent,
    Part,
    Paused,
    SequentialAgent,
    Tool,
    ToolContext,
    tool,
)
from actors.errors import RequestError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support.agents.conversation_tools import look_up, pay
from tests.support.runtimes import Deploy, author_texts, run_turn, stored, stored_state


def pays(amount: int) -> dict[str, Any]:
    return {"call": "pay", "args": {"amount": amount}}


def paused_at(rt: Runtime, message: str = "pay") -> list[FunctionCall]:
    """Run a turn that pauses; the calls that it waits for."""
    result = rt.run(user_id="ada", session_id="s1", message=message).result()
    assert isinstance(result.outcome, Paused)
    calls = {call.id: call for event in result.events for call in event.function_calls()}
    return [calls[call_id] for call_id in result.outcome.call_ids]


def answers(*calls: FunctionCall, **given: Any) -> Content:
    parts = [Part(function_response=FunctionResponse(id=call.id, name=call.name, response=given)) for call in calls]
    return Content(parts=parts)


def answer(rt: Runtime, *calls: FunctionCall, **given: Any) -> list[Event]:
    return run_turn(rt, answers(*calls, **given))


def responses(events: list[Event]) -> list[dict[str, Any]]:
    return [response.response for event in events for response in event.function_responses()]


def paid(rt: Runtime) -> Any:
    return stored_state(rt).get("paid")


def test_it_waits_for_the_users_yes_and_then_runs_as_it_was_called(deploy: Deploy) -> None:
    model = ScriptedModel([{"parts": [pays(80), {"call": "look_up", "args": {"order": "4"}}]}, "paid"])
    with deploy(LlmAgent(name="root", model=model, tools=[pay, look_up])) as rt:
        (call,) = paused_at(rt)
        assert (call.name, call.args, paid(rt)) == ("pay", {"amount": 80}, None)
        events = answer(rt, call, confirmed=True)
        assert [(event.author, event.text) for event in events] == [("root", ""), ("root", "paid")]
        assert responses(events) == [{"receipt": 80}]
        assert paid(rt) == 80
        told_to_model = [content for content in model.requests[1].contents if any(content.function_responses())]
        assert [each.response for content in told_to_model for each in content.function_responses()] == [
            {"receipt": 80},
            {"order": "4", "status": "late"},
        ]


class Purse(Tool):
    """Asks for consent to large amounts only."""

    name = "pay"
    require_confirmation = True

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name="pay", parameters={"type": "object", "properties": {"amount": {"type": "integer"}}})

    async def needs_confirmation(self, args: dict[str, Any], context: ToolContext) -> bool:
        return bool(args["amount"] > context.state["limit"])

    async def run(self, args: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        return {"receipt": args["amount"]}


def test_a_tool_says_which_of_its_calls_need_a_yes(local: Deploy) -> None:
    model = ScriptedModel([{"parts": [pays(5), pays(80), pays(6)]}, "paid"])
    with local(LlmAgent(name="root", model=model, tools=[Purse()])) as rt:
        first = run_turn(rt, "pay", state_delta={"limit": 10})
        assert responses(first) == [{"receipt": 5}, {"receipt": 6}]
        (call,) = [call for event in first for call in event.function_calls() if call.args == {"amount": 80}]
        assert [open_call.call_id for open_call in rt.pending(session_id="s1", user_id="ada")] == [call.id]
        assert responses(answer(rt, call, confirmed=True)) == [{"receipt": 80}]


def test_a_tool_says_so_in_flows_too(local: Deploy) -> None:
    done = {"call": "succeed_buy", "args": {"result": "ok"}}
    with local(LlmAgent(name="root", model=ScriptedModel([pays(5), done]), tools=[Purse()])) as rt:
        assert rt.run_task("Buy it.", name="buy", user_id="ada", session_id="s1", state_delta={"limit": 10}) == "ok"


@pytest.mark.parametrize(
    ("given", "words"), [({"confirmed": False}, ["rejected"]), ({"ok": True}, ["confirmed", "true", "false"])]
)
def test_without_a_yes_it_is_not_run_and_the_model_is_told(given: dict[str, Any], words: list[str], deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=ScriptedModel([pays(80), "a pity"]), tools=[pay])) as rt:
        events = answer(rt, *paused_at(rt), **given)
        assert all(word in responses(events)[0]["error"] for word in words)
        assert author_texts(events)[-1] == ("root", "a pity")
        assert paid(rt) is None


def test_of_several_calls_none_is_run_before_all_are_decided_and_each_is_run_once(deploy: Deploy) -> None:
    model = ScriptedModel([{"parts": [pays(1), pays(2)]}, "both"])
    with deploy(LlmAgent(name="root", model=model, tools=[pay])) as rt:
        first, second = paused_at(rt)
        assert answer(rt, first, confirmed=True) == []
        assert paid(rt) is None
        assert responses(answer(rt, second, confirmed=False))[0] == {"receipt": 1}
        assert paid(rt) == 1
        # A yes that is sent twice does not pay twice, and has the model asked for nothing.
        with pytest.raises(RequestError, match="it has been answered"):
            answer(rt, first, confirmed=True)
        assert paid(rt) == 1
        assert len(model.requests) == 2


def test_a_workflow_goes_on_behind_it(deploy: Deploy) -> None:
    asker = LlmAgent(name="asker", model=ScriptedModel([pays(80), "paid"]), tools=[pay])
    beside = LlmAgent(name="beside", model=ScriptedModel(["meanwhile"]))
    last = LlmAgent(name="last", model=ScriptedModel(["the end"]))
    root = SequentialAgent(name="root", sub_agents=[ParallelAgent(name="both", sub_agents=[asker, beside]), last])
    with deploy(root) as rt:
        said = [text for text in author_texts(answer(rt, *paused_at(rt), confirmed=True)) if text[1]]
        assert said == [("asker", "paid"), ("last", "the end")]
        assert paid(rt) == 80


def test_an_agent_that_is_a_tool_cannot_wait_for_it(deploy: Deploy) -> None:
    asked = LlmAgent(name="asked", model=ScriptedModel([pays(80)]), tools=[pay])
    asks = {"call": "asked", "args": {"request": "pay"}}
    with deploy(LlmAgent(name="root", model=ScriptedModel([asks, "sorry"]), tools=[AgentTool(asked)])) as rt:
        events = run_turn(rt, "go")
        assert "gave no answer" in responses(events)[-1]["error"]
        assert author_texts(events)[-1] == ("root", "sorry")
        assert paid(rt) is None


@pytest.mark.parametrize("decided", ["run", "half"])
def test_a_yes_is_no_result_of_a_call_that_is_cancelled_before_it_has_one(local: Deploy, decided: str) -> None:
    begun = threading.Event()

    @tool(require_confirmation=True)
    async def ship(order: int) -> str:
        """Ship it, some day."""
        begun.set()
        await asyncio.Event().wait()
        return "shipped"

    calls = [{"call": "ship", "args": {"order": order}} for order in (1, 2)]
    model = ScriptedModel([{"parts": calls}, "it was cancelled"])
    with local(LlmAgent(name="root", model=model, tools=[ship])) as rt:
        waiting = paused_at(rt)
        if decided == "run":
            turn = rt.run(user_id="ada", session_id="s1", message=answers(*waiting, confirmed=True))
            assert begun.wait(60)
        else:
            turn = rt.run(user_id="ada", session_id="s1", message=answers(waiting[0], confirmed=True))
            assert isinstance(turn.result().outcome, Paused)
        turn.cancel()
        last = stored(rt)[-1]
        assert (last.author, responses([last])) == ("root", [{"error": "cancelled"}] * 2)
        assert author_texts(run_turn(rt, "and?")) == [("root", "it was cancelled")]
        shown = [each.response for content in model.requests[-1].contents for each in content.function_responses()]
        assert shown == [{"error": "cancelled"}] * 2
        # A yes that comes again does not run it.
        begun.clear()
        with pytest.raises(RequestError, match="it has been answered"):
            answer(rt, *waiting, confirmed=True)
        assert not begun.is_set()
