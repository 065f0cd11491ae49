"""An agent may be in the tree and a tool at once: asked as a tool it answers the agent that asks, and nobody else."""

from __future__ import annotations

from typing import Any

from actors import AgentTool, Content, FunctionResponse, LlmAgent, LongRunningFunctionTool, Part, SequentialAgent
from actors.testing import ScriptedModel
from runtime import Runtime
from tests.support.runtimes import Deploy, author_texts, run_turn, stored

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
