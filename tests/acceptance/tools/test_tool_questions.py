"""A tool that asks the user something in the middle of a call: the turn waits, and the tool is run again with the answer."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Event, Flow, LlmAgent, ParallelAgent, Paused, Task, ToolContext, tool
from actors.errors import RequestError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support.agents.flow_agents import succeed
from tests.support.runtimes import Deploy


@tool
def book(place: str, tool_context: ToolContext) -> str | None:
    """Book a table; asks for the day, and then for the hour."""
    known = tool_context.input
    if known is None:
        tool_context.request_input({"message": f"Which day in {place}?"})
        return None
    if "day" not in known.memo:
        tool_context.request_input({"message": "At what time?"}, {"day": known.response["day"]})
        return None
    return f"{place}, {known.memo['day']} at {known.response['hour']}, {tool_context.function_call_id == 'c1'}"


@tool
def look_up(order: str) -> str:
    """Look something up."""
    return f"{order} is there"


BOOK: dict[str, Any] = {"call": "book", "args": {"place": "Rome"}}
LOOK: dict[str, Any] = {"call": "look_up", "args": {"order": "42"}}


def asked(rt: Runtime) -> list[str]:
    return [(call.question or {}).get("message", "") for call in rt.pending(user_id="ada", session_id="s1")]


def told(events: Any) -> list[Any]:
    return [response.response.get("result") for event in events for response in event.function_responses()]


def test_a_call_may_ask_twice_and_others_of_the_response_are_done_meanwhile(local: Deploy) -> None:
    model = ScriptedModel([{"parts": [BOOK, LOOK]}, "booked", "next"])
    with local(LlmAgent(name="root", model=model, tools=[book, look_up])) as rt:
        result = rt.run(user_id="ada", session_id="s1", message="go").result()
        assert isinstance(result.outcome, Paused)
        assert told(result.events) == ["42 is there"]
        assert asked(rt) == ["Which day in Rome?"]
        [call] = rt.pending(user_id="ada")
        with pytest.raises(RequestError, match="asks a question, and needs no consent"):
            rt.answer(call, confirmed=True).result()
        result = rt.answer(call, {"day": "Monday"}).result()
        assert isinstance(result.outcome, Paused)
        assert asked(rt) == ["At what time?"]
        result = rt.answer(call, {"hour": 8}).result()
        assert told(result.events)[-1] == "Rome, Monday at 8, False"
        assert result.text == "booked"
        assert asked(rt) == []
        assert rt.run(user_id="ada", session_id="s1", message="and now?").result().text == "next"
    # The model sees results only, in the order of its calls.
    seen = [response.response for content in model.requests[1].contents for response in content.function_responses()]
    assert seen == [{"result": "Rome, Monday at 8, False"}, {"result": "42 is there"}]


def test_a_turn_that_is_cancelled_answers_the_call(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=ScriptedModel([BOOK, "on we go"]), tools=[book])) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        turn.result()
        assert asked(rt) == ["Which day in Rome?"]
        # A new message begins another turn; the model sees no call without a response.
        assert rt.run(user_id="ada", session_id="s1", message="never mind").result().text == "on we go"


def test_agents_side_by_side_ask(local: Deploy) -> None:
    agents = [LlmAgent(name=name, model=ScriptedModel([BOOK, name]), tools=[book]) for name in ("one", "two")]
    with local(ParallelAgent(name="both", sub_agents=agents)) as rt:
        rt.run(user_id="ada", session_id="s1", message="go").result()
        assert asked(rt) == ["Which day in Rome?"] * 2
        for given in ({"day": "Monday"}, {"hour": 8}):
            events: list[Event] = []
            for call in rt.pending(user_id="ada"):
                events += rt.answer(call, given).result().events
        assert told(events) == ["Rome, Monday at 8, False"] * 2
        assert asked(rt) == []


def test_a_tool_of_a_flow_asks(local: Deploy) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([BOOK, succeed("book_it", "done")]), tools=[book])
    flow = Flow([Task("Book a table.", name="book_it", result_type=str)], agents=[root])
    with local(root) as rt:
        result = rt.run_flow(flow, user_id="ada", session_id="s1").result()
        assert isinstance(result.outcome, Paused)
        assert asked(rt) == ["Which day in Rome?"]
        [call] = rt.pending(user_id="ada")
        rt.answer(call, {"day": "Monday"}).result()
        assert asked(rt) == ["At what time?"]
        result = rt.answer(call, {"hour": 8}).result()
        assert told(result.events)[0] == "Rome, Monday at 8, False"
        assert result.tasks["book_it"].result == "done"


@tool
def pick(colour: str, tool_context: ToolContext) -> str | None:
    """Ask once."""
    if tool_context.input is None:
        tool_context.request_input({"message": f"Is it {colour}?"})
        return None
    return f"{colour}: {tool_context.input.response['said']}"


def test_the_agent_goes_on_when_the_last_question_of_a_response_is_answered(local: Deploy) -> None:
    picks = {"parts": [{"call": "pick", "args": {"colour": colour}} for colour in ("red", "green")]}
    model = ScriptedModel([picks, "picked"])
    with local(LlmAgent(name="root", model=model, tools=[pick])) as rt:
        rt.run(user_id="ada", session_id="s1", message="go").result()
        first, second = rt.pending(user_id="ada")
        result = rt.answer(first, {"said": "no"}).result()
        assert isinstance(result.outcome, Paused)
        assert asked(rt) == ["Is it green?"]
        result = rt.answer(second, {"said": "yes"}).result()
        assert told(result.events)[-2:] == ["red: no", "green: yes"]
        assert result.text == "picked"
