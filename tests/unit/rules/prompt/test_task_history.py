"""Agents that work in a flow see the past of their own tasks, and nothing of independent tasks."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors import Content, Event, FlowMark, FunctionCall, FunctionResponse, Part, TaskNode
from actors.layers.flows.rules.prompt import TaskHistory
from actors.messages.event import USER
from tests.unit.rules.flow.test_board_and_turn_order import AGENTS, graphs, task

RUN = "r"


def made_by(author: str, text: str, *tasks: str, run: str = RUN) -> Event:
    role = USER if author == USER else "model"
    return Event(author=author, content=Content.of_text(text, role=role), flow=FlowMark(run=run, tasks=tasks) if tasks else None)


def call(author: str, name: str, call_id: str, *tasks: str) -> Event:
    content = Content(role="model", parts=[Part(function_call=FunctionCall(id=call_id, name=name, args={"x": 1}))])
    return Event(author=author, content=content, flow=FlowMark(run=RUN, tasks=tasks))


def answer(author: str, name: str, call_id: str, *tasks: str, **result: Any) -> Event:
    content = Content(role=USER, parts=[Part(function_response=FunctionResponse(id=call_id, name=name, response=result))])
    return Event(author=author, content=content, flow=FlowMark(run=RUN, tasks=tasks) if tasks else None)


def view(agent: str, nodes: tuple[TaskNode, ...], *events: Event) -> TaskHistory:
    made = TaskHistory(agent)
    made.add(Event(author="flow", flow=FlowMark(run=RUN, created=nodes)))
    for event in events:
        made.add(event)
    return made


def seen(made: TaskHistory, *tasks: str) -> str:
    return "\n".join(
        part.text or str(part.function_call or part.function_response)
        for content in made.contents_for(RUN, tasks)
        for part in content.parts
    )


@given(graphs(), st.data())
def test_others_are_seen_exactly_when_they_worked_upstream(nodes: tuple[TaskNode, ...], data: st.DataObject) -> None:
    names = [node.name for node in nodes]
    log = data.draw(st.lists(st.tuples(st.sampled_from(AGENTS), st.sets(st.sampled_from(names), min_size=1)), max_size=12))
    events = [made_by(author, f"<{place}>", *sorted(tasks)) for place, (author, tasks) in enumerate(log)]
    reader = data.draw(st.sampled_from(AGENTS))
    mine = data.draw(st.sets(st.sampled_from(names), min_size=1))
    made = view(reader, nodes, *events)
    upstream = made.board(RUN).upstream(mine)
    text = seen(made, *mine)
    for place, (author, tasks) in enumerate(log):
        assert (f"<{place}>" in text) == (author == reader or not tasks.isdisjoint(upstream))


def test_of_others_tools_only_results_are_seen_and_nothing_of_the_controllers() -> None:
    nodes = (task("t1"), task("t2", "t1"))
    made = view(
        "b",
        nodes,
        call("a", "lookup", "c1", "t1"),
        answer("a", "lookup", "c1", "t1", found="gold"),
        call("a", "succeed_t1", "c2", "t1"),
        answer("a", "succeed_t1", "c2", "t1", status="successful"),
    )
    assert seen(made, "t2") == 'For context:\n[a] `lookup` tool returned result: {"found":"gold"}'


def test_own_calls_and_results_stay_as_they_are_in_the_models_role() -> None:
    made = view("a", (task("t1"),), call("a", "lookup", "c1", "t1"), answer("a", "lookup", "c1", "t1", found="gold"))
    contents = made.contents_for(RUN, ["t1"])
    assert [content.role for content in contents] == ["model", "user"]
    assert next(contents[0].function_calls()).name == "lookup"
    assert next(contents[1].function_responses()).response == {"found": "gold"}


def test_what_the_user_answers_for_a_task_is_seen_where_the_task_is() -> None:
    nodes = (task("t1"), task("t2"), task("t3", "t1"))
    both = Event(
        author=USER,
        content=Content(
            role=USER,
            parts=[Part(text="be quick"), Part(function_response=FunctionResponse(id="c1", name="ask", response={"told": "no"}))],
        ),
    )
    log = (call("a", "ask", "c1", "t1"), both)
    assert seen(view("b", nodes, *log), "t2") == "be quick"
    assert seen(view("b", nodes, *log), "t3") == 'be quick\n[user] `ask` tool returned result: {"told":"no"}'


def test_another_run_of_the_same_flow_is_another_world() -> None:
    made = view("b", (task("t1"),), made_by("a", "then", "t1", run="earlier"), made_by("a", "now", "t1"))
    assert seen(made, "t1") == "For context:\n[a] said: now"


def test_the_response_to_a_call_that_was_cancelled_is_seen_where_its_task_is() -> None:
    nodes = (task("t1"), task("t2"), task("t3", "t1"))
    log = (call("a", "lookup", "c1", "t1"), answer("a", "lookup", "c1", error="cancelled"))
    assert seen(view("b", nodes, *log), "t2") == ""
    assert seen(view("b", nodes, *log), "t3") == 'For context:\n[a] `lookup` tool returned result: {"error":"cancelled"}'


def test_calls_are_open_until_the_agent_itself_has_answered_them() -> None:
    made = view("a", (task("t1"),), call("a", "ask", "c1", "t1"), call("b", "ask", "c2", "t1"))
    assert [(open_call.call.id, open_call.answer) for open_call in made.open_calls(RUN)] == [("c1", None)]
    made.add(answer(USER, "ask", "c1", told="yes"))
    (open_call,) = made.open_calls(RUN)
    assert open_call.answer is not None
    assert open_call.answer.response == {"told": "yes"}
    made.add(answer("a", "ask", "c1", "t1", done=True))
    assert made.open_calls(RUN) == []
    assert made.open_calls("earlier") == []
