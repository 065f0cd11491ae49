"""Events of graphs and of delegates, as they are served to ADK's clients, are events that google-adk itself reads."""

from __future__ import annotations

from typing import Any

from google.adk.events import Event as AdkEvent
from google.adk.workflow import START as ADK_START

from actors import START, Graph, LlmAgent, RequestInput
from actors.testing import ScriptedModel
from runtime.frontends.web.adk.events import adk_events
from tests.adk import programs
from tests.support.graphs import named_node
from tests.support.runtimes import Deploy, run_turn, stored


def test_nodes_keep_their_paths_and_outputs(local: Deploy) -> None:
    inner = Graph(name="inner", edges=[(START, named_node("b"))])
    with local(Graph(name="wf", edges=[(START, named_node("a"), inner)])) as rt:
        run_turn(rt, "go")
        served = [AdkEvent.model_validate(each) for each in adk_events(stored(rt), for_operator=True)]
    assert [(each.author, each.node_info.path, each.node_info.output_for, each.output) for each in served[1:]] == [
        ("wf", "wf@1/a@1", ["wf@1/a@1"], "a(go)"),
        ("inner", "wf@1/inner@1/b@1", ["wf@1/inner@1/b@1", "wf@1/inner@1", "wf@1"], "b(a(go))"),
    ]


def test_a_task_has_the_scope_of_its_call_and_the_user_says_what_came_of_it(local: Deploy) -> None:
    clerk = LlmAgent(name="clerk", mode="task", model=ScriptedModel([{"call": "finish_task", "args": {"result": "R"}}]))
    script: list[Any] = [{"call": "clerk", "args": {"request": "do it"}}, "done"]
    with local(LlmAgent(name="boss", model=ScriptedModel(script), sub_agents=[clerk])) as rt:
        run_turn(rt, "go")
        served = [AdkEvent.model_validate(each) for each in adk_events(stored(rt), for_operator=True)]
    [call] = served[1].get_function_calls()
    assert {each.isolation_scope for each in served if each.author == "clerk"} == {call.id}
    [answer] = [each for each in served if any(response.id == call.id for response in each.get_function_responses())]
    assert answer.author == "user"
    assert served[-1].author == "boss"


def test_a_question_has_all_the_arguments_that_clients_of_adk_read(local: Deploy) -> None:
    def ask() -> RequestInput:
        return RequestInput(interrupt_id="size", message="How large?", response_schema=int)

    with local(Graph(name="wf", edges=[(START, ask)])) as rt:
        run_turn(rt, "go")
        served = [AdkEvent.model_validate(each) for each in adk_events(stored(rt), for_operator=True)]
    [call] = [call for each in served for call in each.get_function_calls()]
    assert call.args == {
        "interruptId": "size",
        "message": "How large?",
        "payload": None,
        "response_schema": {"type": "integer"},
    }


def test_what_an_island_keeps_for_itself_is_not_served(local: Deploy) -> None:
    island = programs.OwnWorkflow(name="island", edges=[(ADK_START, programs.agent("inner", "hello"))])
    with local(island, islands=True) as rt:
        run_turn(rt, "hi")
        served = adk_events(stored(rt), for_operator=True)
    said = [each for each in served if each["author"] == "island"]
    assert [part["text"] for each in said for part in each.get("content", {}).get("parts", ())] == ["hello"]
    assert not [each["customMetadata"] for each in said if "customMetadata" in each]
