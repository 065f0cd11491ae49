"""A tool that asks in the middle of a call whether the user agrees: the turn waits, and the tool runs again with the decision."""

from __future__ import annotations

from typing import Any

from actors import Content, Flow, FunctionResponse, FunctionTool, LlmAgent, LoopAgent, Part, Paused, Task, ToolContext, tool
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support.agents.flow_agents import succeed
from tests.support.agents.workflow_agents import says, seq, short
from tests.support.runtimes import Deploy, stored_state


@tool
def leave(days: int, tool_context: ToolContext) -> dict[str, Any]:
    """Ask for leave; a manager says how many days are given."""
    decided = tool_context.tool_confirmation
    if decided is None:
        tool_context.request_confirmation(hint="How many days?", payload={"days": 0})
        return {"status": "asked"}
    if not decided.confirmed:
        return {"status": "refused"}
    tool_context.state["given"] = decided.payload["days"]
    return {"status": "given", "hint": decided.hint}


@tool(require_confirmation=True)
def pay(euros: int, tool_context: ToolContext) -> str:
    """Pay an invoice."""
    decided = tool_context.tool_confirmation
    return f"paid {euros}: {decided}"


def clerk(first: Any, *tools: FunctionTool, **fields: Any) -> LlmAgent:
    return LlmAgent(name="clerk", model=PatternModel([("tool:", "done")], default=first), tools=list(tools), **fields)


LEAVE: dict[str, Any] = {"call": "leave", "args": {"days": 5}}
PAY: dict[str, Any] = {"call": "pay", "args": {"euros": 5}}


def told(events: Any) -> list[Any]:
    return [response.response for event in events for response in event.function_responses()]


def ask(rt: Runtime) -> Any:
    """Run a turn that pauses, and return the call that waits."""
    result = rt.run(user_id="ada", session_id="s1", message="go").result()
    assert isinstance(result.outcome, Paused)
    assert told(result.events) == []
    [call] = rt.pending(user_id="ada", session_id="s1")
    assert call.is_confirmation
    return call


def test_a_sequence_waits_and_the_tool_has_the_payload(deploy: Deploy) -> None:
    with deploy(seq("s", clerk(LEAVE, leave), says("next"))) as rt:
        call = ask(rt)
        assert call.question == {"message": "How many days?", "payload": {"days": 0}}
        result = rt.answer(call, {"confirmed": True, "payload": {"days": 3}}).result()
        assert told(result.events) == [{"status": "given", "hint": "How many days?"}]
        assert short(result.events)[-2:] == ["clerk done", "next next"]
        assert stored_state(rt)["given"] == 3
        assert rt.pending(user_id="ada") == []


def test_each_iteration_of_a_loop_asks(local: Deploy) -> None:
    model = ScriptedModel([LEAVE, "first", LEAVE, "second"])
    with local(LoopAgent(name="twice", max_iterations=2, sub_agents=[LlmAgent(name="clerk", model=model, tools=[leave])])) as rt:
        call = ask(rt)
        result = rt.answer(call, confirmed=False).result()
        assert (told(result.events), isinstance(result.outcome, Paused)) == ([{"status": "refused"}], True)
        [again] = rt.pending(user_id="ada")
        assert again.call_id != call.call_id
        assert rt.answer(again, {"confirmed": True, "payload": {"days": 1}}).result().text == "second"


def test_an_answer_that_is_no_decision_is_told_to_the_model_and_the_tool_is_not_run(local: Deploy) -> None:
    with local(clerk(LEAVE, leave)) as rt:
        [response] = told(rt.answer(ask(rt), {"days": 3}).result().events)
        assert '{"days":3}' in response["error"]


def test_answers_of_clients_of_adk_are_answers_to_the_call(deploy: Deploy) -> None:
    with deploy(clerk(LEAVE, leave)) as rt:
        call = ask(rt)
        given = {"response": '{"confirmed": true, "payload": {"days": 2}}'}
        response = FunctionResponse(id=f"{call.call_id}:confirm", name="adk_request_confirmation", response=given)
        message = Content(parts=[Part(function_response=response)])
        result = rt.run(user_id="ada", session_id="s1", message=message).result()
        assert told(result.events) == [{"status": "given", "hint": "How many days?"}]


def test_a_tool_that_needs_consent_has_the_decision_with_its_payload(local: Deploy) -> None:
    with local(clerk(PAY, pay)) as rt:
        [response] = told(rt.answer(ask(rt), {"confirmed": True, "payload": "by card"}).result().events)
        assert response == {"result": "paid 5: ToolConfirmation(confirmed=True, payload='by card', hint='')"}


def test_a_call_that_fails_after_it_has_asked_does_not_wait(local: Deploy) -> None:
    @tool
    def breaks(tool_context: ToolContext) -> None:
        """Ask, and fail."""
        tool_context.request_confirmation(hint="?")
        raise OSError("the disk is full")

    with local(clerk({"call": "breaks"}, breaks)) as rt:
        result = rt.run(user_id="ada", session_id="s1", message="go").result()
        assert (result.text, told(result.events)) == ("done", [{"error": "OSError: the disk is full"}])


def test_a_flow_waits(local: Deploy) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([LEAVE, succeed("plan", "planned")]), tools=[leave])
    with local(root) as rt:
        rt.run_flow(Flow([Task("Plan.", name="plan")], agents=[root]), user_id="ada", session_id="s1").result()
        [call] = rt.pending(user_id="ada")
        assert call.is_confirmation
        result = rt.answer(call, {"confirmed": True, "payload": {"days": 3}}).result()
        assert result.tasks["plan"].result == "planned"
