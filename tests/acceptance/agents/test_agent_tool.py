"""Agents as tools: the asking agent gets the answer, and no other agent sees what they do.

An agent may be in the tree and a tool at once: asked as a tool it answers the agent that asks, and nobody else.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors import (
    AgentTool,
    Content,
    Event,
    FunctionResponse,
    LlmAgent,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    Part,
    RunConfig,
    SequentialAgent,
    Tool,
    ToolContext,
    exit_loop,
)
from actors.errors import AgentFailedError, LlmCallsLimitExceededError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support.agents.conversation_agents import Invoice, Order
from tests.support.agents.conversation_tools import HangThenFail, forever
from tests.support.runtimes import Deploy, author_texts, run_turn, stored


def asks(agent: str = "expert", request: str = "why?", **more: Any) -> dict[str, Any]:
    return {"call": agent, "args": {"request": request}, **more}


def expert(*replies: Any, **more: Any) -> LlmAgent:
    return LlmAgent(name="expert", description="Knows.", model=ScriptedModel(list(replies)), **more)


def results(events: list[Event], author: str = "root") -> list[dict[str, Any]]:
    return [answer.response for event in events if event.author == author for answer in event.function_responses()]


def texts(model: Any, request: int) -> list[str]:
    return [content.text for content in model.requests[request].contents]


def test_it_is_asked_by_a_call_and_its_answer_is_the_result(deploy: Deploy) -> None:
    asked = expert("because", "once more: because")
    model = ScriptedModel([asks(), "it says: because", asks(request="and now?"), "the same"])
    with deploy(LlmAgent(name="root", model=model, tools=[AgentTool(asked)])) as rt:
        events = run_turn(rt, "tell me")
        assert author_texts(events)[-1] == ("root", "it says: because")
        assert results(events) == [{"result": "because"}]
        assert texts(asked.model, 0) == ["why?"]
        declared = model.requests[0].tools[0]
        assert (declared.name, declared.description) == ("expert", "Knows.")
        assert declared.parameters is not None
        assert declared.parameters["required"] == ["request"]
        branches = [(event.author, bool(event.branch)) for event in stored(rt)]
        assert branches == [
            ("user", False),
            ("root", False),
            ("user", True),
            ("expert", True),
            ("root", False),
            ("root", False),
        ]
        # The expert has spoken, but the next message does not go to it, and it sees nothing of earlier turns.
        assert author_texts(run_turn(rt, "again"))[-1] == ("root", "the same")
        assert texts(asked.model, 1) == ["and now?"]
        assert texts(model, 3) == ["tell me", "", "", "it says: because", "again", "", ""]


def test_schemas_are_its_arguments_and_its_result(deploy: Deploy) -> None:
    asked = expert('{"order": 42, "paid": true}', input_schema=Order, output_schema=Invoice)
    calls = [{"call": "expert", "args": {"order": 42}}, {"call": "expert", "args": {"order": "x"}}]
    root = LlmAgent(name="root", model=ScriptedModel([{"parts": calls}, "ok"]), tools=[AgentTool(asked)])
    with deploy(root) as rt:
        result, wrong = results(run_turn(rt, "go"))
        assert result == {"order": 42, "paid": True}
        assert all(word in wrong["error"] for word in ("expert", "order", "integer"))
        assert texts(asked.model, 0) == ['{"order":42}']


def test_what_it_writes_into_state_is_seen_at_once_and_by_all(deploy: Deploy) -> None:
    asked = expert("because", output_key="reason")
    model = ScriptedModel([asks(), "ok"])
    root = LlmAgent(name="root", model=model, tools=[AgentTool(asked)], instruction="Reason: {reason?}.")
    with deploy(root) as rt:
        run_turn(rt, "go")
        assert [request.system_instruction.split(".")[0] for request in model.requests] == ["Reason: ", "Reason: because"]


def test_tools_that_run_beside_it_read_what_it_has_written(local: Deploy) -> None:
    has_ended = asyncio.Event()

    async def look(tool_context: ToolContext) -> str:
        assert "reason" not in tool_context.state
        await has_ended.wait()
        return str(tool_context.state["reason"])

    def end(tool: Tool, args: Any, tool_context: ToolContext, result: Any) -> None:
        if tool.name == "expert":
            has_ended.set()

    asked = expert("because", output_key="reason")
    model = ScriptedModel([{"parts": [{"call": "look"}, asks()]}, "ok"])
    with local(LlmAgent(name="root", model=model, tools=[look, AgentTool(asked)], after_tool_callback=end)) as rt:
        assert results(run_turn(rt, "go")) == [{"result": "because"}] * 2


def test_it_is_asked_twice_at_the_same_time_by_several_agents(deploy: Deploy) -> None:
    asked = expert("one", "two", "three")
    model = ScriptedModel([{"parts": [asks(request="a"), asks(request="b")]}, {"transfer": "sub"}, asks(request="c"), "done"])
    sub = LlmAgent(name="sub", model=model, tools=[AgentTool(asked)])
    with deploy(LlmAgent(name="root", model=model, tools=[AgentTool(asked)], sub_agents=[sub])) as rt:
        events = run_turn(rt, "go")
        assert sorted(result["result"] for result in results(events)[:2]) == ["one", "two"]
        assert results(events, "sub") == [{"result": "three"}]
        assert sorted(texts(asked.model, 0) + texts(asked.model, 1)) == ["a", "b"]
        assert texts(asked.model, 2) == ["c"]


def test_transfers_stay_below_it_and_escalations_do_not_leave_it(deploy: Deploy) -> None:
    model = ScriptedModel([{"transfer": "helper"}, {"parts": ["bye", {"call": "exit_loop"}]}])
    helper = LlmAgent(name="helper", model=model, tools=[exit_loop])
    asked = LlmAgent(name="expert", model=model, sub_agents=[helper])
    root = LlmAgent(name="asker", model=ScriptedModel([asks(), "one", "two"]), tools=[AgentTool(asked)])
    with deploy(LoopAgent(name="loop", max_iterations=2, sub_agents=[root])) as rt:
        events = run_turn(rt, "go")
        assert [event.text for event in events if event.author == "asker" and event.text] == ["one", "two"]
        _, transfers = model.requests[1].tools
        assert transfers.parameters is not None
        assert transfers.parameters["properties"]["agent_name"]["enum"] == ["expert"]


def test_a_workflow_can_be_asked_and_so_can_an_agent_that_asks_another(deploy: Deploy) -> None:
    model = ScriptedModel([asks("inner"), "deep", "noted"])
    first = LlmAgent(name="first", model=model, tools=[AgentTool(LlmAgent(name="inner", model=model))])
    second = LlmAgent(name="second", model=ScriptedModel(["the end"]))
    both = ParallelAgent(name="both", sub_agents=[second])
    steps = SequentialAgent(name="steps", sub_agents=[first, both])
    root = LlmAgent(name="root", model=ScriptedModel([asks("steps"), "ok"]), tools=[AgentTool(steps)])
    with deploy(root) as rt:
        events = run_turn(rt, "go")
        assert results(events) == [{"result": "the end"}]
        assert results(events, "first") == [{"result": "deep"}]
        assert texts(model, 1) == ["why?"]
        assert texts(second.model, 0)[0] == "why?"


def test_its_failure_is_told_to_the_model_and_is_in_the_log(deploy: Deploy) -> None:
    asked = expert(ValueError("line down"))
    root = LlmAgent(name="root", model=ScriptedModel([asks(), "sorry"]), tools=[AgentTool(asked)])
    with deploy(root) as rt:
        events = run_turn(rt, "go")
        assert all(word in results(events)[0]["error"] for word in ("expert", "ValueError", "line down"))
        assert author_texts(events)[-1] == ("root", "sorry")
        assert [(event.author, event.error_message) for event in stored(rt) if event.error_code] == [("expert", "line down")]


def test_it_cannot_wait_for_an_answer_and_a_late_one_does_not_reach_it(deploy: Deploy) -> None:
    def ask() -> None:
        return None

    asked = expert({"call": "ask"}, tools=[LongRunningFunctionTool(ask)])
    root = LlmAgent(name="root", model=ScriptedModel([asks(), "sorry", "hm"]), tools=[AgentTool(asked)])
    with deploy(root) as rt:
        events = run_turn(rt, "go")
        assert "long-running" in results(events)[0]["error"]
        assert author_texts(events)[-1] == ("root", "sorry")
        [call] = [call for event in stored(rt) for call in event.function_calls() if call.name == "ask"]
        late = Part(function_response=FunctionResponse(id=call.id, name="ask", response={"ok": True}))
        assert author_texts(run_turn(rt, Content(parts=[late, Part(text="hello?")]))) == [("root", "hm")]


def test_its_model_calls_count_for_the_turn(deploy: Deploy) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([asks(), "ok"]), tools=[AgentTool(expert("because"))])
    with deploy(root) as rt:
        with pytest.raises(LlmCallsLimitExceededError, match="'root'"):
            run_turn(rt, "go", run_config=RunConfig(max_llm_calls=2))
        assert [event.text for event in stored(rt) if event.author == "expert"] == ["because"]


def test_it_stops_when_the_turn_is_cancelled(deploy: Deploy) -> None:
    asked = expert({"call": "forever"}, tools=[forever])
    model = ScriptedModel([asks(), "fine"])
    with deploy(LlmAgent(name="root", model=model, tools=[AgentTool(asked)])) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        for event in turn:
            if event.author == "expert":
                break
        assert author_texts(run_turn(rt, "hi")) == [("root", "fine")]
        cancelled = [(event.author, bool(event.branch)) for event in stored(rt) if "cancelled" in event.to_json()]
        assert cancelled == [("root", False), ("expert", True)]
        assert texts(model, 1) == ["go", "", "", "hi"]


def test_a_parallel_that_fails_stops_it_too(deploy: Deploy, tmp_path: Path) -> None:
    trap = HangThenFail(tmp_path)
    asked = expert({"call": "fall_in"}, tools=[trap.fall_in])
    asker = LlmAgent(name="asker", model=ScriptedModel([asks()]), tools=[AgentTool(asked)])
    other = LlmAgent(name="other", model=ScriptedModel([]), before_agent_callback=trap.fail_then)
    with deploy(ParallelAgent(name="both", sub_agents=[asker, other])) as rt:
        with pytest.raises(AgentFailedError, match="kaput"):
            run_turn(rt, "go")
        assert trap.left.exists()


@pytest.mark.parametrize(
    ("fields", "said", "answer"),
    [({}, "because", "because"), ({"output_schema": Invoice}, '{"order":3,"paid":true}', '{"order": 3, "paid": true}')],
)
def test_its_answer_is_the_answer_of_the_agent_that_does_not_summarize_it(
    deploy: Deploy, fields: dict[str, Any], said: str, answer: str
) -> None:
    model = ScriptedModel([asks(), "not said", "later"])
    root = LlmAgent(name="root", model=model, tools=[AgentTool(expert(said, **fields), skip_summarization=True)])
    with deploy(root) as rt:
        result = rt.run(user_id="ada", session_id="s1", message="tell me").result()
        assert result.text == answer
        assert [len(event.content.parts) for event in result.events if event.author == "root" and event.content] == [1, 2]


def test_the_result_of_another_tool_that_skips_summarization_is_no_answer(deploy: Deploy) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([{"call": "exit_loop", "args": {}}]), tools=[exit_loop])
    with deploy(root) as rt:
        assert rt.run(user_id="ada", session_id="s1", message="stop").result().text == ""


ASKS = {"call": "expert", "args": {"request": "why?"}}


def sign() -> None:
    """Have the boss sign."""


def tree(root: list[Any], expert: list[Any], **more: Any) -> LlmAgent:
    """A root that has `expert` as a child and as a tool, each with its replies."""
    asked = LlmAgent(name="expert", description="Knows.", model=ScriptedModel(expert), **more)
    return LlmAgent(name="root", model=ScriptedModel(root), sub_agents=[asked], tools=[AgentTool(asked)])


def said(rt: Runtime, message: Any = "hi") -> list[tuple[str, str]]:
    """Who said what in a turn, calls and their results aside."""
    return [(author, text) for author, text in author_texts(run_turn(rt, message)) if text]


def test_what_it_says_as_a_tool_does_not_make_it_the_agent_that_the_user_talks_to(deploy: Deploy) -> None:
    def deployed(root: list[Any], expert: list[Any], asker: list[Any]) -> Runtime:
        asked = LlmAgent(name="expert", model=ScriptedModel(expert))
        asks = LlmAgent(name="asker", model=ScriptedModel(asker), tools=[AgentTool(asked)])
        steps = SequentialAgent(name="steps", sub_agents=[asks])
        return deploy(LlmAgent(name="root", model=ScriptedModel(root), sub_agents=[asked, steps]))

    # No message of the user goes to an agent of a workflow, so without the mark it would go to the one that spoke before it.
    with deployed([{"transfer": "steps"}, "root again"], ["because"], [ASKS, "it says: because"]) as rt:
        assert said(rt) == [("expert", "because"), ("asker", "it says: because")]
        assert said(rt) == [("root", "root again")]
        assert [event.author for event in stored(rt) if event.text == "because"] == ["expert"]
    with deployed([{"transfer": "steps"}], ["therefore"], [ASKS, "it says: therefore"]) as rt:
        assert said(rt)[-1] == ("asker", "it says: therefore")
    # Another program reads the log from the store.
    with deployed([{"transfer": "expert"}], ["I am here", "still here"], []) as rt:
        assert said(rt) == [("expert", "I am here")]
        assert said(rt) == [("expert", "still here")]


def test_as_a_tool_it_may_transfer_to_its_children_only(local: Deploy) -> None:
    helper = LlmAgent(name="helper", model=ScriptedModel(["helped", "helped again"]))
    root = tree([ASKS, {"transfer": "expert"}], [{"transfer": "helper"}, "I am here"], sub_agents=[helper])
    expert = root.sub_agents[0]
    assert isinstance(expert, LlmAgent)
    with local(root) as rt:
        run_turn(rt, "hi")
        as_tool, in_tree = expert.model.requests[:2]
        assert [target(request) for request in (as_tool, in_tree)] == [["helper"], ["helper", "root"]]
        assert "root" not in as_tool.system_instruction


def target(request: Any) -> list[str]:
    (tool,) = (tool for tool in request.tools if tool.name == "transfer_to_agent")
    found: list[str] = tool.parameters["properties"]["agent_name"]["enum"]
    return found


def answer(call_id: str) -> Content:
    return Content(role="user", parts=[Part(function_response=FunctionResponse(id=call_id, name="sign", response={"ok": True}))])


def test_the_answer_to_a_call_that_it_made_in_the_tree_reaches_it_there(deploy: Deploy) -> None:
    signs = {"tools": [LongRunningFunctionTool(sign)]}
    expert = LlmAgent(name="expert", model=ScriptedModel([{"call": "sign"}, "it is signed", "as a tool"]), **signs)  # type: ignore[arg-type]
    asker = LlmAgent(name="asker", model=ScriptedModel([ASKS, "asked"]), tools=[AgentTool(expert)])
    with deploy(SequentialAgent(name="root", sub_agents=[expert, asker])) as rt:
        run_turn(rt, "go")
        (pending,) = rt.pending(session_id="s1", user_id="ada")
        assert pending.agent == "expert"
        # In the turn that goes on it is asked as a tool as well.
        assert said(rt, answer(pending.call_id)) == [("expert", "it is signed"), ("expert", "as a tool"), ("asker", "asked")]


def test_the_answer_to_a_call_that_it_made_as_a_tool_does_not(local: Deploy) -> None:
    tools = [LongRunningFunctionTool(sign)]
    with local(tree([ASKS, "it cannot wait", "what is signed?"], [{"call": "sign"}], tools=tools)) as rt:
        events = run_turn(rt, "go")
        (call_id,) = (call.id for event in events for call in event.function_calls() if call.name == "sign")
        assert author_texts(events)[-1] == ("root", "it cannot wait")
        assert rt.pending(session_id="s1", user_id="ada") == []
        assert said(rt, answer(call_id or "")) == [("root", "what is signed?")]


def test_the_users_answers_are_for_the_tree_and_not_for_an_agent_that_is_asked(local: Deploy) -> None:
    clerk = LlmAgent(name="clerk", model=ScriptedModel([{"call": "sign"}, "clerk has it"]), tools=[LongRunningFunctionTool(sign)])
    expert = LlmAgent(name="expert", model=ScriptedModel([{"transfer": "clerk"}, "expert knows"]), sub_agents=[clerk])
    steps: list[Any] = [{"parts": [{"call": "sign"}, {"transfer": "expert"}]}, ASKS, "left has it"]
    left = LlmAgent(name="left", model=ScriptedModel(steps), tools=[LongRunningFunctionTool(sign), AgentTool(expert)])
    root = LlmAgent(name="root", model=ScriptedModel([{"transfer": "left"}]), sub_agents=[left, expert])
    with local(root) as rt:
        calls = [call for event in run_turn(rt, "hi") for call in event.function_calls()]
        waiting = [FunctionResponse(id=call.id, name="sign", response={"ok": True}) for call in calls if call.name == "sign"]
        assert len(waiting) == 2
        # One answer is for left, which asks the expert first; the other one for the clerk, below the expert.
        answers = Content(parts=[Part(function_response=each) for each in waiting])
        assert said(rt, answers) == [("expert", "expert knows"), ("left", "left has it"), ("clerk", "clerk has it")]
