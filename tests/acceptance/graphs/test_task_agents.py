"""Agents that work on a task with the user, as nodes of graphs (semantics.md section 8)."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import pytest
from pydantic import BaseModel

from actors import (
    START,
    Blob,
    Content,
    Event,
    Graph,
    LlmAgent,
    NodeContext,
    ParallelAgent,
    Part,
    RequestInput,
    RunConfig,
    SequentialAgent,
    node,
)
from actors.errors import AgentTreeError, GraphValidationError, RepeatMismatchError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from tests.acceptance.graphs.test_pauses_and_attempts import answers
from tests.support.graphs import ends, named_node, texts
from tests.support.runtimes import Deploy, run_turn, stored, stored_state


class Trip(BaseModel):
    """What is to be known of a trip."""

    city: str
    days: int


def finish(**args: Any) -> dict[str, Any]:
    return {"call": "finish_task", "args": args}


def agent(name: str, *replies: Any, **fields: Any) -> tuple[LlmAgent, ScriptedModel]:
    model = ScriptedModel(list(replies))
    return LlmAgent(name=name, model=model, **{"mode": "task", **fields}), model


def said(model: ScriptedModel) -> list[str]:
    """The texts of the last request."""
    return [part.text or "…" for content in model.requests[-1].contents for part in content.parts]


def ask_name() -> RequestInput:
    return RequestInput(interrupt_id="name")


def invocations(rt: Runtime) -> int:
    return len({event.invocation_id for event in stored(rt)})


def test_a_task_takes_as_many_turns_as_it_needs_and_hands_on_its_result(deploy: Deploy) -> None:
    planner, model = agent(
        "planner", "Where to?", "For how long?", finish(city="Rome", days=3), output_schema=Trip, output_key="trip"
    )
    graph = Graph(name="wf", edges=[(START, named_node("first"), planner, named_node("last"))])
    with deploy(graph) as rt:
        assert texts(run_turn(rt, "hello")) == ["Where to?"]
        assert texts(run_turn(rt, "Rome")) == ["For how long?"]
        events = run_turn(rt, "three days")
        # It sees its input and its own talk with the user, and nothing else.
        assert said(model) == ["first(hello)", "Where to?", "Rome", "For how long?", "three days"]
        assert ends(events) == {"wf@1/planner@1": {"city": "Rome", "days": 3}, "wf@1/last@1": "last({'city': 'Rome', 'days': 3})"}
        assert {event.node_info.isolation_scope for event in events if event.author == "planner" and event.node_info} == {
            "wf@1/planner@1"
        }
        assert stored_state(rt)["trip"] == {"city": "Rome", "days": 3}
        assert invocations(rt) == 1
        # The task is over, so the next message begins anew.
        with pytest.raises(Exception, match="script"):
            run_turn(rt, "again")
        assert invocations(rt) == 2


def test_a_result_that_does_not_fit_is_refused_and_given_again(deploy: Deploy) -> None:
    planner, model = agent("planner", finish(city="Rome"), finish(city="Rome", days=2), output_schema=Trip)
    with deploy(Graph(name="wf", edges=[(START, planner)])) as rt:
        events = run_turn(rt, "go")
        [refused, taken] = [response.response for event in events for response in event.function_responses()]
        assert "days" in refused["error"]
        assert taken == {"result": "Task completed."}
        assert ends(events) == {"wf@1/planner@1": {"city": "Rome", "days": 2}}
        declared = {tool.name: tool.parameters or {} for tool in model.requests[-1].tools}
        assert set(declared["finish_task"]["properties"]) == {"city", "days"}


def test_words_reach_the_task_after_a_restart(deploy: Deploy) -> None:
    def graph() -> Graph:
        planner, _ = agent("planner", "Where to?", finish(result="Rome it is"))
        return Graph(name="wf", edges=[(START, named_node("first"), planner, named_node("last"))])

    whole = graph()
    with deploy(whole) as rt:
        run_turn(rt, "hello")
    with deploy(whole) as rt:
        events = run_turn(rt, "Rome")
        assert ends(events)["wf@1/last@1"] == "last({'result': 'Rome it is'})"
        assert invocations(rt) == 1


def test_each_task_gets_the_words_that_are_for_it(deploy: Deploy) -> None:
    first, first_model = agent("first", "one?", finish(result="1"))
    second, second_model = agent("second", "two?", finish(result="2"))
    with deploy(Graph(name="wf", edges=[(START, first, second)])) as rt:
        run_turn(rt, "go")
        assert texts(run_turn(rt, "a")) == ["two?"]
        assert ends(run_turn(rt, "b")) == {"wf@1/second@1": {"result": "2"}}
        assert said(first_model) == ["go", "one?", "a"]
        assert said(second_model) == ['{"result": "1"}', "two?", "b"]


@pytest.mark.parametrize("where", ["graph", "function", "parallel", "sequence", "worker"])
def test_a_task_that_waits_makes_all_around_it_wait(deploy: Deploy, where: str) -> None:
    planner, _ = agent("planner", "Where to?", finish(result="Rome"))

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> Any:
        return await ctx.run_node(planner, "go")

    inner = Graph(name="inner", edges=[(START, planner)])
    last = named_node("last")
    root: Any = {
        "graph": Graph(name="wf", edges=[(START, inner, last)]),
        "parallel": ParallelAgent(name="wf", sub_agents=[inner, Graph(name="other", edges=[(START, named_node("x"))])]),
        "sequence": SequentialAgent(name="wf", sub_agents=[inner, Graph(name="other", edges=[(START, last)])]),
        "function": Graph(name="wf", edges=[(START, chief, last)], sub_agents=[planner]),
        "worker": Graph(name="wf", edges=[(START, node(planner, parallel_worker=True), last)]),
    }[where]
    with deploy(root) as rt:
        begun = run_turn(rt, "hello")
        assert "Where to?" in texts(begun)
        assert not any("last" in path for path in ends(begun))
        events = run_turn(rt, "Rome")
        assert {"result": "Rome"} in ends(events).values()
        assert invocations(rt) == 1
        assert where == "parallel" or any("last" in path for path in ends(events))


def test_an_answer_to_another_question_leaves_the_task_waiting(deploy: Deploy) -> None:
    planner, model = agent("planner", "Where to?", finish(result="Rome"))
    with deploy(Graph(name="wf", edges=[(START, (ask_name, planner))])) as rt:
        run_turn(rt, "hello")
        assert texts(run_turn(rt, answers(name="Ada"))) == []
        assert ends(run_turn(rt, "Rome"))["wf@1/planner@1"] == {"result": "Rome"}
        assert said(model) == ["hello", "Where to?", "Rome"]
        assert invocations(rt) == 1


async def test_words_in_line_go_to_whoever_waits_for_words_when_their_turn_comes(deploy: Deploy) -> None:
    first, _ = agent("first", "one?", finish(result="1"))
    second, second_model = agent("second", "two?", finish(result="2"))
    with deploy(Graph(name="wf", edges=[(START, first, second)])) as rt:
        given: dict[str, Any] = {"user_id": "ada", "session_id": "s1", "run_config": RunConfig(on_concurrent_turn="enqueue")}
        # None of the messages knows who will wait when it is its turn: not even that anybody will.
        turns = [rt.run(message=words, **given) for words in ("go", "a", "b")]
        results = await asyncio.gather(*(turn.result_async() for turn in turns))
        assert len({result.invocation_id for result in results}) == 1
        assert said(second_model) == ['{"result": "1"}', "two?", "b"]


def test_words_that_are_sent_twice_are_said_once(deploy: Deploy) -> None:
    planner, model = agent("planner", "Where to?", "When?", finish(result="Rome"))
    with deploy(Graph(name="wf", edges=[(START, planner)])) as rt:
        run_turn(rt, "hello")
        for _ in range(2):
            events = list(rt.run(user_id="ada", session_id="s1", message="Rome", invocation_id="mine"))
            assert events
        assert len([event for event in stored(rt) if event.author == "user"]) == 2
        assert said(model)[:3] == ["hello", "Where to?", "Rome"]


async def take_time(*_: object) -> None:
    await asyncio.sleep(0.2)


@pytest.mark.parametrize("is_in_line", [False, True])
async def test_words_that_are_sent_again_before_their_answer_are_worked_on_once(deploy: Deploy, is_in_line: bool) -> None:
    planner, model = agent("planner", "Where to?", "When?", after_model_callback=take_time)
    with deploy(planner) as rt:
        first = rt.run(user_id="ada", session_id="s1", message="hello")
        await (first.aio.started() if is_in_line else first.result_async())
        turns = [rt.run(user_id="ada", session_id="s1", message="Rome", invocation_id="mine") for _ in range(4)]
        results = await asyncio.gather(*(turn.result_async() for turn in turns))
        assert [result.text for result in results] == ["When?"] * 4
        assert len(model.requests) == 2


def test_words_with_data_that_are_sent_twice_are_saved_once(deploy: Deploy) -> None:
    planner, model = agent("planner", "Where to?", "When?", finish(result="Rome"))
    map_of_it = Part(inline_data=Blob(mime_type="image/png", data=b"map"))
    given: dict[str, Any] = {"message": Content(parts=[map_of_it]), "run_config": RunConfig(save_input_blobs_as_artifacts=True)}
    with deploy(Graph(name="wf", edges=[(START, planner)])) as rt:
        run_turn(rt, "hello")
        for _ in range(2):
            assert texts(list(rt.run(user_id="ada", session_id="s1", invocation_id="mine", **given))) == ["When?"]
        [name] = rt.artifacts.list_keys("ada", "s1")
        assert rt.artifacts.list_versions("ada", "s1", name) == [0]
        assert len(model.requests) == 2


def test_words_that_begin_a_turn_are_not_joined_with_other_words_under_its_id(deploy: Deploy) -> None:
    planner, _ = agent("planner", "Where to?")
    map_of_it = Part(inline_data=Blob(mime_type="image/png", data=b"map"))
    saved = RunConfig(save_input_blobs_as_artifacts=True)
    with deploy(Graph(name="wf", edges=[(START, planner)])) as rt:
        given: dict[str, Any] = {"message": Content(parts=[map_of_it]), "invocation_id": "mine", "run_config": saved}
        assert texts(run_turn(rt, fingerprint="one", **given)) == texts(run_turn(rt, fingerprint="one", **given)) == ["Where to?"]
        with pytest.raises(RepeatMismatchError):
            run_turn(rt, fingerprint="other", **given)


def test_a_chat_sees_the_conversation_and_hands_on_nothing(deploy: Deploy) -> None:
    talker, model = agent("talker", "Hello!", "Still here.", mode="chat")
    with deploy(Graph(name="wf", edges=[(START, talker)])) as rt:
        run_turn(rt, "hi")
        events = run_turn(rt, "there?")
        assert texts(events) == ["Still here."]
        assert said(model) == ["hi", "Hello!", "there?"]
        assert invocations(rt) == 2


def test_modes_where_they_mean_nothing_are_refused(deploy: Deploy) -> None:
    once, _ = agent("clerk", "x", mode="single_turn")
    with pytest.raises(AgentTreeError, match="mode='single_turn'"):
        deploy(once).start()
    task, _ = agent("planner", "x")
    with pytest.raises(AgentTreeError, match="mode='task'"):
        deploy(SequentialAgent(name="steps", sub_agents=[task])).start()
    chat, _ = agent("talker", "x", mode="chat")
    with pytest.raises(GraphValidationError, match="no edge leads on"):
        Graph(name="wf", edges=[(START, chat, named_node("x"))])
    other, _ = agent("other", "x", mode="chat")
    with pytest.raises(GraphValidationError, match="behind START"):
        Graph(name="wf", edges=[(START, named_node("y"), other)])


def test_a_task_agent_may_be_the_root(deploy: Deploy) -> None:
    planner, model = agent("planner", "Where to?", "How long?", finish(city="Rome", days=3), "Again?", output_schema=Trip)
    with deploy(planner) as rt:
        assert texts(run_turn(rt, "plan a trip")) == ["Where to?"]
        run_turn(rt, "Rome")
        assert ends(run_turn(rt, "3 days")) == {"planner@1": {"city": "Rome", "days": 3}}
        # Nothing of it is lost, and all of it was one turn.
        assert said(model) == ["plan a trip", "Where to?", "Rome", "How long?", "3 days"]
        assert invocations(rt) == 1
        run_turn(rt, "another one")
        assert said(model) == ["another one"]
        assert invocations(rt) == 2


def test_the_events_of_a_task_say_so_in_json(deploy: Deploy) -> None:
    planner, _ = agent("planner", "Where to?")
    with deploy(Graph(name="wf", edges=[(START, planner)])) as rt:
        [event] = [each for each in run_turn(rt, Content.of_text("hi")) if each.text == "Where to?"]
        assert Event.from_json(event.to_json()) == event
        assert event.node_info is not None
        assert event.node_info.output_for == ()


@pytest.mark.parametrize("how", ["cancelled", "rewound"])
def test_a_task_that_is_given_up_gets_no_more_words(deploy: Deploy, how: str) -> None:
    planner, model = agent("planner", "Where to?", "Where to, then?")
    with deploy(Graph(name="wf", edges=[(START, planner)])) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="hello")
        list(turn)
        if how == "cancelled":
            rt.attach(user_id="ada", session_id="s1", invocation_id=turn.invocation_id).cancel()
        else:
            rt.sessions.rewind("ada", "s1", turn.invocation_id)
        again = run_turn(rt, "hi")
        assert texts(again) == ["Where to, then?"]
        assert again[0].invocation_id != turn.invocation_id
        assert said(model) == ["hi"]


def test_a_message_with_data_and_one_with_state_are_words_too(deploy: Deploy) -> None:
    planner, model = agent("planner", "Where to?", "And when?", finish(result="Rome"))
    with deploy(Graph(name="wf", edges=[(START, planner)])) as rt:
        run_turn(rt, "hello")
        map_of_it = Part(inline_data=Blob(mime_type="image/png", data=b"map"))
        saved = RunConfig(save_input_blobs_as_artifacts=True)
        run_turn(rt, Content(role="user", parts=[Part(text="here"), map_of_it]), run_config=saved)
        run_turn(rt, "soon", state_delta={"season": "spring"})
        assert "here" in said(model)
        assert stored_state(rt)["season"] == "spring"
        assert invocations(rt) == 1


def test_words_are_for_the_turn_that_paused_last_by_the_log_where_a_clock_was_set_back(
    local: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(node_input: str) -> RequestInput:
        return RequestInput(interrupt_id=f"name of {node_input}")

    planner, _ = agent("planner", "Where to, first?", "Where to, second?", finish(result="Rome"))
    times = itertools.count(time.time(), -1)
    monkeypatch.setattr(time, "time", lambda: next(times))
    with local(Graph(name="wf", edges=[(START, ask, planner)])) as rt:
        first, second = (run_turn(rt, message)[0].invocation_id for message in ("one", "two"))
        for message in ("one", "two"):
            run_turn(rt, answers(**{f"name of {message}": "Ada"}))
        assert {event.invocation_id for event in run_turn(rt, "Rome")} == {second}
        assert {turn.invocation_id: turn.state for turn in rt.turns.list()} == {first: "paused", second: "finished"}
