"""Tools: how calls run, and which results the model gets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent, Tool, ToolContext, exit_loop
from actors.testing import ScriptedModel
from runtime import Settings
from tests.support.agents.conversation_tools import Rendezvous, add, add_later, fail, forget, look_up, put, put_nonsense
from tests.support.fixtures.session_fixture import settled
from tests.support.runtimes import Deploy, author_texts, run_turn, stored, stored_state


def answers(deploy: Deploy, tools: list[Any], *calls: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The results of the calls of one response, and the session's state after them."""
    model = ScriptedModel([{"parts": list(calls)}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=tools)) as rt:
        events = run_turn(rt, "go")
        assert [event.text for event in events] == ["", "", "done"]
        call, answer = list(events[0].function_calls()), list(events[1].function_responses())
        assert [each.id for each in answer] == [each.id for each in call]
        assert len({each.id for each in call}) == len(calls)
        assert [each.name for each in answer] == [each["call"] for each in calls]
        told_to_model = list(model.requests[1].contents[-1].function_responses())
        assert told_to_model == answer
        return [each.response for each in answer], stored_state(rt)


def test_the_calls_of_one_response_run_at_the_same_time_and_block_nobody(deploy: Deploy) -> None:
    met, _ = answers(deploy, Rendezvous().tools(), {"call": "block"}, {"call": "share"})
    assert met == [{"result": True}, {"result": True}]


def test_what_a_tool_did_wrong_or_was_given_wrongly_is_told_to_the_model(deploy: Deploy) -> None:
    tools = [look_up, fail, put_nonsense, put]
    calls: list[dict[str, Any]] = [
        {"call": "look_app"},
        {"call": "look_up"},
        {"call": "look_up", "args": {"order": ["4"]}},
        {"call": "fail"},
        {"call": "put_nonsense"},
        {"call": "put", "args": {"key": "k", "value": [1, None]}},
    ]
    told_back, state = answers(deploy, tools, *calls)
    errors = [response["error"] for response in told_back[:-1]]
    for error, words in zip(
        errors,
        [
            ("look_app", "look_up", "fail", "put"),
            ("look_up", "order"),
            ("order", "string"),
            ("ValueError", "kaput"),
            ("state['bad']", "object"),
        ],
        strict=True,
    ):
        assert all(word in error for word in words), error
    assert told_back[-1] == {"result": "ok"}
    assert state == {"k": [1, None]}


def test_a_tool_clears_the_state(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "put", "args": {"key": "a", "value": 1}}, {"call": "forget"}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[put, forget])) as rt:
        result = rt.run(user_id="ada", session_id="s1", message="go", state_delta={"k": 1, "user:b": 2}).result()
        assert result.text == "done"
        assert [each.response for each in result.events[3].function_responses()] == [{"last": ["a", 1], "left": {}, "k": []}]
        assert stored_state(rt) == {"a": None, "k": [], "user:b": None}


def test_the_calls_of_one_response_have_one_state(deploy: Deploy) -> None:
    items = ["a", "b", "c", "d"]
    in_threads, state = answers(deploy, [add], *({"call": "add", "args": {"item": item}} for item in items))
    assert sorted(state["cart"]) == sorted(state["log"]) == items
    assert sorted(len(response["result"]) for response in in_threads) == [1, 2, 3, 4]


def test_the_calls_of_one_response_have_one_state_on_an_event_loop_too(deploy: Deploy) -> None:
    on_loop, state = answers(deploy, [add_later], *({"call": "add_later", "args": {"item": item}} for item in "ab"))
    assert state == {"cart": ["a", "b"], "log": ["a", "b"]}
    assert on_loop == [{"result": ["a"]}, {"result": ["a", "b"]}]


@pytest.mark.parametrize("together", [False, True])
def test_of_a_key_the_value_that_was_written_last_stays_whichever_call_ends_last(local: Deploy, together: bool) -> None:
    has_written, has_ended = asyncio.Event(), asyncio.Event()

    async def slow(tool_context: ToolContext) -> None:
        """Write first, and end last."""
        tool_context.state["key"] = tool_context.state["slow"] = "slow"
        has_written.set()
        await has_ended.wait()
        for _ in range(10):
            await settled()

    async def quick(tool_context: ToolContext) -> None:
        """Write last, and end first."""
        await has_written.wait()
        tool_context.state["key"] = "quick"

    def note(tool: Tool, args: Any, tool_context: ToolContext, result: Any) -> None:
        if tool.name == "quick":
            has_ended.set()

    model = ScriptedModel([{"parts": [{"call": "slow"}, {"call": "quick"}]}, "done"])
    root = LlmAgent(name="root", model=model, tools=[slow, quick], after_tool_callback=note)
    with local(root, settings=Settings(results_wait_s=30 if together else 0)) as rt:
        events = run_turn(rt, "go")
        assert len(events) == (3 if together else 4)
        assert stored_state(rt) == {"key": "quick", "slow": "slow"}


@pytest.mark.parametrize(
    "ids", [("a", "a"), ("a", "a", "a"), ("a", None, "a"), ("b", "earlier"), ("earlier", "earlier")], ids=repr
)
def test_each_call_gets_its_own_result_whatever_ids_the_model_has_given(local: Deploy, ids: Sequence[str | None]) -> None:
    def echo(number: int) -> int:
        """Say the number."""
        return number

    calls = [{"call": "echo", "args": {"number": number}, "id": id} for number, id in enumerate(ids)]
    earlier = {"call": "echo", "args": {"number": 9}, "id": "earlier"}
    model = ScriptedModel([earlier, "done", {"parts": calls}, "done"])
    with local(LlmAgent(name="root", model=model, tools=[echo])) as rt:
        run_turn(rt, "first")
        run_turn(rt, "go")
        log = stored(rt)
    made = [call for event in log for call in event.function_calls()]
    given = {response.id: response.response for event in log for response in event.function_responses()}
    assert [given[call.id] for call in made] == [{"result": call.args["number"]} for call in made]
    assert len(given) == len(made) == len(ids) + 1


def test_the_model_can_ask_for_a_tool_that_does_not_exist_where_there_are_none(deploy: Deploy) -> None:
    told_back, _ = answers(deploy, [], {"call": "ghost"})
    assert "ghost" in told_back[0]["error"]


def test_an_agent_sees_its_tools_once_and_shares_its_model_with_those_below(deploy: Deploy) -> None:
    model = ScriptedModel([{"transfer": "sub"}, "hello"])
    sub = LlmAgent(name="sub", tools=[look_up, fail])
    with deploy(LlmAgent(name="root", model=model, sub_agents=[sub])) as rt:
        assert author_texts(run_turn(rt, "hi"))[-1] == ("sub", "hello")
        assert [tool.name for tool in model.requests[1].tools] == ["look_up", "fail", "transfer_to_agent"]
        assert [tool.parameters for tool in model.requests[1].tools if tool.name == "look_up"] == [
            {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"], "additionalProperties": False}
        ]


def test_a_call_that_only_decides_is_stored_together_with_its_answer(tmp_path: Path) -> None:
    def commits(*replies: Any, tools: Any = ()) -> int:
        billing = LlmAgent(name="billing", model=ScriptedModel(["paid"]))
        root = LlmAgent(name="root", model=ScriptedModel(list(replies)), sub_agents=[billing], tools=list(tools))
        with Deploy("local", tmp_path / str(len(list(tmp_path.iterdir()))))(root) as rt:
            run_turn(rt, "go")
            return rt.statistics().session.counts["commits"]

    alone = commits("done")
    # The call and its answer; the other agent's text takes the place of the root's own.
    assert commits({"transfer": "billing"}) == alone + 1
    assert commits({"call": "exit_loop"}, tools=[exit_loop]) == alone + 1
    # What a tool does must not happen before its call is in the log.
    assert (
        commits({"parts": [{"transfer": "billing"}, {"call": "look_up", "args": {"order": "4"}}]}, tools=[look_up]) == alone + 2
    )
