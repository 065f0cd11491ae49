"""Flows through the public API: tasks, their results and boards, and what agents see and say of them (semantics.md section 7)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actors import (
    AgentTool,
    Event,
    Flow,
    FlowAgent,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    Task,
    create_tasks,
)
from actors.errors import AgentTreeError, DefinitionError, InvocationNotFoundError, TaskFailedError
from actors.testing import PatternModel, Reply, ScriptedModel
from runtime import FlowBoard, Runtime
from tests.support.agents.flow_agents import ME, BarrierModel, Person, ask_user, asked, reply_to, states, succeed, worker
from tests.support.models.waiting_model import GatedModel
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn


@dataclass
class Place:
    city: str
    zip_code: str | None = None


def test_results_are_of_the_types_of_their_tasks(local: Deploy) -> None:
    agent = worker(
        "a",
        succeed("person", {"name": "Ada", "age": 36}),
        succeed("place", {"city": "London"}),
        succeed("count", [1, 2]),
        succeed("label", 1),
        succeed("nothing"),
        succeed("text", "done"),
    )
    chain = [
        Task("who", name="person", result_type=Person),
        Task("where", name="place", result_type=Place, depends_on=["person"]),
        Task("how many", name="count", result_type=list[int], depends_on=["place"]),
        Task("which", name="label", result_type=["red", "green"], depends_on=["count"]),
        Task("do it", name="nothing", result_type=None, depends_on=["label"]),
        Task("say it", name="text", depends_on=["nothing"]),
    ]
    with local(Flow(chain, agents=[agent])) as rt:
        result = rt.run(**ME, message="go").result()
    assert {name: task.result for name, task in result.tasks.items()} == {
        "person": Person(name="Ada", age=36),
        "place": Place("London"),
        "count": [1, 2],
        "label": "green",
        "nothing": None,
        "text": "done",
    }
    assert result.text == "done"
    finish = {tool.name: tool.parameters for tool in asked(agent)[0].tools}
    assert finish["succeed_person"] == {
        "type": "object",
        "properties": {"result": Person.model_json_schema()},
        "required": ["result"],
    }
    assert {tool.name: tool.parameters for tool in asked(agent)[4].tools}["succeed_nothing"] is None
    assert "0: red, 1: green" in asked(agent)[3].system_instruction


@pytest.mark.parametrize(
    ("result_type", "wrong", "words"),
    [
        (int, "many", "valid integer"),
        (Person, {"name": "Ada"}, "age: Field required"),
        (["a", "b"], 2, "0 to 1"),
        (["a", "b"], "a", "0 to 1"),
        (["a", "b"], True, "0 to 1"),
        (str, 7, "valid string"),
    ],
)
def test_a_result_that_does_not_fit_is_told_to_the_model_and_finishes_nothing(
    local: Deploy, result_type: Any, wrong: Any, words: str
) -> None:
    agent = worker("a", succeed("t", wrong), {"call": "fail_t", "args": {"reason": "no idea"}})
    with local(Flow([Task("try", name="t", result_type=result_type)], agents=[agent])) as rt:
        turn = rt.run(**ME, message="go")
        assert states(turn) == {"t": "failed"}
    (told,) = asked(agent)[1].contents[-1].function_responses()
    assert words in told.response["error"]


def test_run_task_returns_the_result_itself_sync_and_async(local: Deploy) -> None:
    root = worker(
        "root",
        succeed("task_1", {"city": "London"}),
        succeed("task_1", "Ada"),
        {"call": "fail_task_1", "args": {"reason": "why"}},
    )
    with local(root) as rt:
        assert rt.run_task("Where?", result_type=Place) == Place("London")
        assert asyncio.run(rt.aio.run_task("Who?", agents=["root"])) == "Ada"
        with pytest.raises(TaskFailedError, match="'task_1' has no result: it is failed: why"):
            rt.run_task("Who?")
        with pytest.raises(DefinitionError, match="max_llm_calls"):
            rt.run_task("Who?", max_llm_calls=0)
        with pytest.raises(AgentTreeError, match=r"names agent 'rot'.*Did you mean 'root'"):
            rt.run_task("Who?", agents=["rot"])
        with pytest.raises(DefinitionError, match="another than the one"):
            rt.run_task("Who?", agents=[worker("root")])


def test_objectives_are_templates_and_what_was_done_before_is_told(local: Deploy) -> None:
    first, second = worker("first", succeed("find", {"name": "Ada", "age": 36})), worker("second", succeed("write", "text"))
    flow = Flow(
        [
            Task("Find {whom}", name="find", result_type=Person, agents=[first]),
            Task("Write about {whom}", name="write", agents=[second], depends_on=["find"]),
        ]
    )
    with local(flow) as rt:
        rt.run(**ME, message="go", state_delta={"whom": "her"}).result()
    (request,) = asked(second)
    assert "`write`: Write about her" in request.system_instruction
    assert '`find` (successful): Find her\n  Result: {"name":"Ada","age":36}' in request.system_instruction
    assert "first" not in "".join(content.text for content in request.contents)


def test_only_wanted_tasks_are_done_with_what_they_need(local: Deploy) -> None:
    root = worker("root", succeed("a", "1"), succeed("b", "2"))
    flow = Flow([Task("1", name="a"), Task("2", name="b", depends_on=["a"]), Task("3", name="c")], agents=[root])
    with local(root) as rt:
        turn = rt.run_flow(flow, **ME, tasks=["b"])
        assert states(turn) == {"a": "successful", "b": "successful", "c": "pending"}
        assert turn.agent == "@controller"
        with pytest.raises(DefinitionError, match=r"no task 'bb'.*Did you mean 'b'"):
            rt.run_flow(flow, **ME, tasks=["bb"])
        # The conversation goes on with the agent of the tree that spoke last.
        assert rt.sessions.get("ada", "s1") is not None


def test_independent_tasks_of_different_agents_are_done_side_by_side(local: Deploy) -> None:
    model = BarrierModel(3)
    agents = [LlmAgent(name=name, model=model) for name in ("a", "b", "c")]
    flow = Flow([Task("look", name=f"t_{agent.name}", agents=[agent]) for agent in agents])
    with local(flow) as rt:
        result = rt.run(**ME, message="go", run_config=RunConfig(timeout=20)).result()
    assert sorted(model.here) == ["a", "b", "c"]
    assert {name: task.result for name, task in result.tasks.items()} == {"t_a": "a", "t_b": "b", "t_c": "c"}
    assert result.text == "t_a: a\nt_b: b\nt_c: c"


def test_talk_is_no_result_and_the_agent_is_asked_again(local: Deploy) -> None:
    agent = worker("a", "Let me think.", None, succeed("t", "found"))
    with local(Flow([Task("find", name="t")], agents=[agent])) as rt:
        turn = rt.run(**ME, message="go")
        told = [event.text for event in turn if event.text]
    assert told == ["Let me think.", "found"]
    requests = asked(agent)
    assert [content.text for content in requests[1].contents] == ["go", "Let me think.", "Go on with your tasks."]
    assert [event.flow.round for event in turn if event.flow is not None and event.flow.llm_calls] == [1, 2, 3]


def test_the_log_tells_of_tasks_and_turns(local: Deploy) -> None:
    agents = [worker("a", {"call": "end_turn", "args": {"next_agent": "b"}}), worker("b", succeed("t", "x"))]
    with local(Flow([Task("find", name="t")], agents=agents)) as rt:
        marks = [event.flow for event in rt.run(**ME, message="go") if event.flow is not None]
    assert [node.name for mark in marks for node in mark.created] == ["t"]
    assert [mark.ready for mark in marks if mark.ready] == [("t",)]
    assert [dict(mark.turns) for mark in marks if mark.turns] == [{"a": ("t",)}, {"b": ("t",)}]
    assert [mark.next_agent for mark in marks if mark.ends_turn] == ["b"]
    assert [change.status for mark in marks for change in mark.changes.values()] == ["successful"]


def test_callbacks_surround_an_agents_turn_and_not_its_rounds(local: Deploy) -> None:
    called: list[str] = []
    agent = LlmAgent(
        name="a",
        model=ScriptedModel(["thinking", succeed("t", "x"), succeed("u", "y")]),
        before_agent_callback=lambda context: called.append("before"),
        after_agent_callback=lambda context: called.append("after"),
    )
    with local(Flow([Task("1", name="t"), Task("2", name="u", depends_on=["t"])], agents=[agent])) as rt:
        rt.run(**ME, message="go").result()
    assert called == ["before", "after"] * 2


def test_pieces_of_answers_are_streamed_with_their_tasks(local: Deploy) -> None:
    agent = worker("a", {"stream": ["One ", "two"]}, succeed("t", "x"))
    with local(Flow([Task("1", name="t")], agents=[agent])) as rt:
        turn = rt.run(**ME, message="go", run_config=RunConfig(streaming="sse"))
        pieces: list[Event] = [event for event in turn if event.partial and event.text]
    assert [(event.text, event.flow.tasks) for event in pieces if event.flow is not None] == [("One ", ("t",)), ("two", ("t",))]


def test_a_runtime_of_agents_alone_takes_tasks_as_they_come(local: Deploy) -> None:
    agents = [worker("a", succeed("task_1", "1")), worker("b")]
    with local(Flow(agents=agents, name="office")) as rt:
        assert rt.run_task("Do it") == "1"
        with pytest.raises(DefinitionError, match="has no tasks"):
            rt.run_flow(Flow(agents=agents), **ME)


def test_tools_of_a_task_are_there_while_it_is_worked_on(local: Deploy) -> None:
    agent = worker("a", {"call": "dig"}, succeed("t", "x"), succeed("u", "y"), output_schema=Person)
    flow = Flow([Task("1", name="t", tools=[dig]), Task("2", name="u", depends_on=["t"])], agents=[agent])
    with local(flow) as rt:
        assert set(states(rt.run(**ME, message="go")).values()) == {"successful"}
    names = [[tool.name for tool in request.tools] for request in asked(agent)]
    assert names == [["dig", "succeed_t", "fail_t"]] * 2 + [["succeed_u", "fail_u"]]
    assert all(request.output_schema is None for request in asked(agent))


def dig() -> str:
    """Dig."""
    return "gold"


def plan(*tasks: dict[str, Any], **more: Any) -> Reply:
    return {"call": "create_tasks", "args": {"tasks": list(tasks), **more}}


def test_a_planner_makes_tasks_that_its_own_waits_for(local: Deploy) -> None:
    planner = worker(
        "planner",
        plan(
            {"name": "one", "objective": "first {x}", "agents": ["a"]},
            {"name": "two", "objective": "second", "labels": ["y", "n"], "agents": ["a"]},
            part_of="plan",
        ),
        succeed("plan", "both done"),
        tools=[create_tasks],
    )
    hands = worker("a", succeed("one", "1"), succeed("two", 1))
    flow = Flow(
        [Task("Plan", name="plan", agents=[planner]), Task("End", name="end", depends_on=["plan"], agents=[hands])],
        agents=[hands, planner],
    )
    hands.model.replies.append(succeed("end", "over"))
    with local(flow) as rt:
        result = rt.run(**ME, message="go").result()
    assert {name: task.result for name, task in result.tasks.items()} == {
        "plan": "both done",
        "end": "over",
        "one": "1",
        "two": "n",
    }
    assert "`one` (successful): first {x}" in asked(planner)[1].system_instruction
    assert result.text == "over"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (plan(), "no tasks"),
        (plan({"name": "plan", "objective": "x"}), "already"),
        (plan({"name": "no way", "objective": "x"}), "cannot be a name"),
        (plan({"name": "x", "objective": "x", "agents": ["plannr"]}), "Did you mean 'planner'"),
        (plan({"name": "x", "objective": "x", "depends_on": ["y"]}), "'y' is not known"),
        (plan({"name": "x", "objective": "x", "depends_on": ["plan"]}, part_of="plan"), "circle"),
        (plan({"name": "x", "objective": "x"}, part_of="x"), "part_of must be"),
        ({"call": "create_tasks", "args": {"tasks": [{"name": "x"}]}}, "objective: Field required"),
    ],
)
def test_a_plan_that_cannot_be_is_told_to_the_planner(local: Deploy, wrong: Reply, words: str) -> None:
    planner = worker("planner", wrong, succeed("plan", "none"), tools=[create_tasks])
    with local(Flow([Task("Plan", name="plan")], agents=[planner])) as rt:
        assert states(rt.run(**ME, message="go")) == {"plan": "successful"}
    (response,) = asked(planner)[1].contents[-1].function_responses()
    assert words in response.response["error"]


def test_create_tasks_outside_of_a_flow_is_an_error_to_the_model(local: Deploy) -> None:
    root = worker("root", plan({"name": "x", "objective": "x"}), "well", tools=[create_tasks])
    with local(root) as rt:
        events = rt.run(**ME, message="go").result().events
    assert "only in a flow" in next(events[1].function_responses()).response["error"]


def test_a_flow_is_an_agent_of_a_tree(local: Deploy) -> None:
    agent = worker("a", succeed("t", "found"))
    editor = worker("editor", "Edited.")
    root = SequentialAgent(
        name="root", sub_agents=[FlowAgent(Flow([Task("1", name="t")], agents=[agent], name="search")), editor]
    )
    with local(root) as rt:
        result = rt.run(**ME, message="go").result()
    assert (result.text, result.tasks["t"].result) == ("Edited.", "found")
    assert "[search] said: found" in str(asked(editor)[0].contents)


def test_a_flow_in_a_loop_begins_anew_each_time(local: Deploy) -> None:
    agent = worker("a", succeed("t", "1"), succeed("t", "2"))
    flow = FlowAgent(Flow([Task("1", name="t")], agents=[agent]))
    with local(LoopAgent(name="loop", max_iterations=2, sub_agents=[flow])) as rt:
        result = rt.run(**ME, message="go").result()
    assert [event.text for event in result.events if event.text] == ["1", "2"]
    assert result.tasks["t"].result == "2"


def test_a_flow_is_a_tool_of_an_agent_and_works_on_what_it_is_asked(local: Deploy) -> None:
    agent = worker("a", succeed("t", "found"))
    search = FlowAgent(Flow([Task("1", name="t")], agents=[agent], name="search"))
    root = worker("root", {"call": "search", "args": {"request": "the key"}}, "It is found.", tools=[AgentTool(search)])
    with local(root) as rt:
        assert rt.run(**ME, message="go").result().text == "It is found."
    assert [content.text for content in asked(agent)[0].contents] == ["the key"]
    assert next(asked(root)[1].contents[-1].function_responses()).response == {"result": "found"}


def test_a_flow_that_only_names_its_agents_finds_them_in_the_tree(local: Deploy) -> None:
    agent = worker("a", succeed("t", "found"), "bye")
    flow = FlowAgent(Flow([Task("1", name="t", agents=["a"])]))
    with local(SequentialAgent(name="root", sub_agents=[flow, SequentialAgent(name="rest", sub_agents=[agent])])) as rt:
        turn = rt.run(**ME, message="go")
        events = [event.author for event in turn if event.flow is not None and event.flow.tasks]
        assert set(events) == {"a"}
    with pytest.raises(AgentTreeError, match=r"'flow' names agent 'b', which is not in it"):
        local(SequentialAgent(name="root", sub_agents=[FlowAgent(Flow([Task("1", agents=["b"])]))]))


def test_after_a_flow_the_conversation_goes_on_as_ever(local: Deploy) -> None:
    agent = worker("a", succeed("t", "found"), "Hello again.")
    root = LlmAgent(name="root", model=ScriptedModel([]), sub_agents=[agent])
    with local(root) as rt:
        rt.run_flow(Flow([Task("1", name="t")], agents=[agent]), **ME).result()
        turn = rt.run(**ME, message="hi")
        assert (turn.agent, turn.result().text) == ("a", "Hello again.")


def test_flows_beside_each_other_in_a_parallel_do_not_see_each_other(local: Deploy) -> None:
    agents = {name: worker(name, f"I am {name}", succeed("t", name)) for name in ("a", "b")}
    flows = [FlowAgent(Flow([Task("1", name="t")], agents=[agent], name=f"flow_{name}")) for name, agent in agents.items()]
    with local(ParallelAgent(name="both", sub_agents=flows)) as rt:
        events = rt.run(**ME, message="go").result().events
    assert {(event.author, event.branch) for event in events if event.flow is not None and event.flow.tasks} == {
        ("a", "both.flow_a"),
        ("b", "both.flow_b"),
    }
    for agent in agents.values():
        assert [content.text for content in asked(agent)[1].contents] == ["go", f"I am {agent.name}", "Go on with your tasks."]


def board(rt: Runtime, invocation_id: str) -> FlowBoard:
    [found] = rt.turns.boards("ada", "s1", invocation_id)
    return found


def test_a_flow_that_waits_and_goes_on_is_as_its_events_say(deploy: Deploy) -> None:
    asking = worker("asking", {"call": "ask_user", "args": {"question": "Which?"}}, succeed("t", "blue"), tools=[ask_user])
    busy = worker("busy", succeed("u", "done"), succeed("v", "done, too"))
    tasks = [
        Task("1", name="t", agents=[asking]),
        Task("2", name="u", agents=[busy]),
        Task("3", name="v", depends_on=["t"], agents=[busy]),
    ]
    with deploy(Flow(tasks, name="colours")) as rt:
        turn = rt.run(**ME, message="go")
        reply = reply_to(turn, result="blue")
        found = board(rt, turn.invocation_id)
        assert {task.name: (task.status, list(task.works)) for task in found.tasks} == {
            "t": ("running", []),
            "u": ("successful", []),
            "v": ("pending", []),
        }
        assert (dict(found.counts), list(found.goal)) == ({"running": 1, "successful": 1, "pending": 1}, ["t", "u", "v"])
        assert [list(task.needs) for task in found.tasks] == [[], [], ["t"]]
        list(rt.run(**ME, message=reply))
        found = board(rt, turn.invocation_id)
        assert {task.name: task.result for task in found.tasks}["t"] == "blue"
        assert found.last_seq == rt.turns.get("ada", "s1", turn.invocation_id).last_seq
        with pytest.raises(InvocationNotFoundError):
            rt.turns.boards("ada", "s1", "another")


def test_who_works_on_a_task_is_told_while_it_does(local: Deploy, tmp_path: Path) -> None:
    model = GatedModel(tmp_path, "done")
    with local(Flow([Task("do it", name="t", agents=[LlmAgent(name="slow", model=model)])])) as rt:
        turn = rt.run(**ME, message="go")
        model.wait_until_called()
        # The agent begins while what is said of that is on its way to the log.
        until(lambda: board(rt, turn.invocation_id).tasks[0].status == "running")
        [task] = board(rt, turn.invocation_id).tasks
        assert (task.status, list(task.works)) == ("running", ["slow"])
        turn.cancel()
        [task] = board(rt, turn.invocation_id).tasks
        assert list(task.works) == []


def test_a_turn_without_a_flow_has_no_board_and_one_with_two_has_both(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=PatternModel([], default="hi"))) as rt:
        assert rt.turns.boards("ada", "s1", run_turn(rt, "hi")[0].invocation_id) == []
    twice = worker("a", succeed("t", "one"))
    with local(twice, app_name="other") as rt:
        turn = rt.run_flow(Flow([Task("do it", name="t", agents=["a"])]), **ME)
        turn.result()
        assert [task.result for task in board(rt, turn.invocation_id).tasks] == ["one"]
