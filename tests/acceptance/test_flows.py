"""Flows through the public API: results, limits, failures, pauses, planners, flows inside trees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
import pytest

from actors import (
    AgentTool,
    Content,
    Event,
    Flow,
    FlowAgent,
    FunctionCall,
    FunctionResponse,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LoopAgent,
    ParallelAgent,
    Part,
    Paused,
    RunConfig,
    SequentialAgent,
    Task,
    create_tasks,
    tool,
)
from actors.errors import (
    AgentFailedError,
    AgentTreeError,
    DefinitionError,
    FlowLimitExceededError,
    LlmCallsLimitExceededError,
    TaskFailedError,
    TurnCancelledError,
)
from actors.testing import ScriptedModel
from actors.testing.models import Reply
from runtime import Turn
from tests.support.runtimes import Deploy

ME: dict[str, Any] = {"user_id": "ada", "session_id": "s1"}


class Person(pydantic.BaseModel):
    name: str
    age: int


@dataclass
class Place:
    city: str
    zip_code: str | None = None


@pytest.fixture
def local(tmp_path: Path) -> Deploy:
    return Deploy("local", tmp_path)


def succeed(task: str, *result: Any) -> Reply:
    return {"call": f"succeed_{task}", "args": {"result": result[0]} if result else {}}


def worker(name: str, *replies: Reply, **more: Any) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel(replies), **more)


def asked(agent: LlmAgent) -> list[LlmRequest]:
    return list(agent.model.requests)


def states(turn: Turn) -> dict[str, str]:
    return {name: task.status for name, task in turn.result().tasks.items()}


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


class BarrierModel:
    """A model whose calls wait for each other: it answers once `expected` calls have come."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.here: list[str] = []
        self._all_here = asyncio.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.here.append(request.agent)
        if len(self.here) == self.expected:
            self._all_here.set()
        await asyncio.wait_for(self._all_here.wait(), 10)
        finish = next(tool.name for tool in request.tools if tool.name.startswith("succeed_"))
        yield LlmResponse(content=Content(role="model", parts=[_call(finish, result=request.agent)]))


def _call(name: str, **args: Any) -> Part:
    return Part(function_call=FunctionCall(name=name, args=args))


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


def test_what_needs_a_failed_task_is_skipped_and_the_turn_ends_well(local: Deploy) -> None:
    agent = worker("a", {"call": "fail_t", "args": {"reason": "no data"}}, succeed("w", "anyway"))
    flow = Flow(
        [
            Task("1", name="t"),
            Task("2", name="u", depends_on=["t"]),
            Task("3", name="v", depends_on=["u"]),
            Task("4", name="w", depends_on=["u"], on_failed_dependency="run"),
        ],
        agents=[agent],
    )
    with local(flow) as rt:
        tasks = rt.run(**ME, message="go").result().tasks
    assert {name: task.status for name, task in tasks.items()} == {
        "t": "failed",
        "u": "skipped",
        "v": "skipped",
        "w": "successful",
    }
    assert tasks["t"].reason == "no data"
    assert "'t', which was failed" in tasks["u"].reason
    assert "`u` (skipped)" in asked(agent)[1].system_instruction


def test_a_task_fails_at_its_model_calls(local: Deploy) -> None:
    agent = worker("a", "hm", "hm", succeed("u", "x"))
    with local(Flow([Task("1", name="t", max_llm_calls=2), Task("2", name="u")], agents=[agent], max_parallel=1)) as rt:
        tasks = rt.run(**ME, message="go").result().tasks
    assert (tasks["t"].status, tasks["u"].status) == ("failed", "successful")
    assert "max_llm_calls" in tasks["t"].reason


@pytest.mark.parametrize("limit", ["max_rounds", "max_llm_calls"])
def test_a_flow_at_its_limit_fails_loudly_and_the_next_turn_works(local: Deploy, limit: str) -> None:
    agent = worker("a", "hm", "hm", succeed("t", "x"))
    with local(Flow([Task("1", name="t")], agents=[agent], **{limit: 2})) as rt:
        with pytest.raises(FlowLimitExceededError, match=f"'flow' is not done after what {limit}=2 allows; left to do: t"):
            rt.run(**ME, message="go").result()
        assert rt.run(**ME, message="again").result().text == "x"


def test_the_turns_own_limit_of_model_calls_holds_in_flows(local: Deploy) -> None:
    agent = worker("a", "hm", "hm", "hm")
    with local(Flow([Task("1", name="t")], agents=[agent])) as rt, pytest.raises(LlmCallsLimitExceededError):
        rt.run(**ME, message="go", run_config=RunConfig(max_llm_calls=2)).result()
    assert len(asked(agent)) == 2


def test_an_agent_that_fails_ends_the_flow_and_those_beside_it(local: Deploy) -> None:
    waits = asyncio.Event()
    stopped: list[str] = []

    class Waiting:
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            try:
                await waits.wait()
            finally:
                stopped.append(request.agent)
            yield LlmResponse()

    agents = [worker("a", ValueError("broken")), LlmAgent(name="b", model=Waiting())]
    with local(Flow([Task("1", name="t", agents=["a"]), Task("2", name="u", agents=["b"])], agents=agents)) as rt:
        with pytest.raises(AgentFailedError, match="broken"):
            rt.run(**ME, message="go").result()
        assert stopped == ["b"]


def test_a_flow_is_cancelled_with_its_turn(local: Deploy) -> None:
    model = BarrierModel(2)
    with local(Flow([Task("1", name="t")], agents=[LlmAgent(name="a", model=model)])) as rt:
        turn = rt.run(**ME, message="go")
        for event in turn:
            if event.flow is not None and event.flow.turns:
                turn.cancel()
                break
        with pytest.raises(TurnCancelledError):
            turn.result()


@tool(long_running=True)
def ask_user(question: str) -> None:
    """Ask the user."""


@tool(require_confirmation=True)
def delete(what: str) -> str:
    """Delete something."""
    return f"{what} is gone"


def reply_to(turn: Turn, **answer: Any) -> Content:
    calls = [call for event in turn for call in event.function_calls() if call.id in event.long_running_tool_ids]
    return Content(
        role="user", parts=[Part(function_response=FunctionResponse(id=calls[-1].id, name=calls[-1].name, response=answer))]
    )


def paused_flow() -> tuple[Flow, LlmAgent, LlmAgent]:
    asking = worker("asking", {"call": "ask_user", "args": {"question": "Which?"}}, succeed("t", "blue"), tools=[ask_user])
    busy = worker("busy", succeed("u", "done"))
    flow = Flow(
        [
            Task("1", name="t", agents=[asking]),
            Task("2", name="u", agents=[busy]),
            Task("3", name="v", depends_on=["t"], agents=[busy]),
        ],
        name="colours",
    )
    return flow, asking, busy


@pytest.mark.parametrize("is_root", [True, False])
def test_a_long_running_call_pauses_the_flow_and_its_answer_goes_on_there(local: Deploy, is_root: bool) -> None:
    flow, asking, busy = paused_flow()
    busy.model.replies.append(succeed("v", "all"))
    root = flow if is_root else LlmAgent(name="root", model=ScriptedModel([]), sub_agents=[asking, busy])
    with local(root) as rt:
        turn = rt.run(**ME, message="go") if is_root else rt.run_flow(flow, **ME)
        first = turn.result()
        assert isinstance(first.outcome, Paused)
        assert {name: task.status for name, task in first.tasks.items()} == {"t": "running", "u": "successful", "v": "pending"}
        second = rt.run(**ME, message=reply_to(turn, told="blue")).result()
    assert second.invocation_id == first.invocation_id
    assert {name: (task.status, task.result) for name, task in second.tasks.items()} == {
        "t": ("successful", "blue"),
        "u": ("successful", "done"),
        "v": ("successful", "all"),
    }
    assert next(asked(asking)[1].contents[-1].function_responses()).response == {"told": "blue"}
    # Work from before the pause is not repeated, and the independent agent sees nothing of the question.
    assert len(asked(busy)) == 2
    assert "Which?" not in str(asked(busy)[0].contents)


def test_a_paused_flow_goes_on_in_another_deployment_that_is_given_it_again(tmp_path: Path) -> None:
    flow, asking, busy = paused_flow()
    busy.model.replies.append(succeed("v", "all"))
    root = LlmAgent(name="root", model=ScriptedModel([]), sub_agents=[asking, busy])
    local = Deploy("local", tmp_path)
    with local(root) as rt:
        turn = rt.run_flow(flow, **ME)
        assert isinstance(turn.result().outcome, Paused)
        answer = reply_to(turn, told="blue")
    with local(root) as rt:
        result = rt.run_flow(flow, **ME, message=answer).result()
    assert result.invocation_id == turn.invocation_id
    assert {task.status for task in result.tasks.values()} == {"successful"}


@pytest.mark.parametrize(("confirmed", "told"), [(True, {"result": "it is gone"}), (False, None)])
def test_a_call_waits_for_the_users_consent(local: Deploy, confirmed: bool, told: dict[str, str] | None) -> None:
    agent = worker("a", {"call": "delete", "args": {"what": "it"}}, succeed("t", "x"), tools=[delete])
    with local(Flow([Task("1", name="t")], agents=[agent])) as rt:
        turn = rt.run(**ME, message="go")
        assert isinstance(turn.result().outcome, Paused)
        assert rt.run(**ME, message=reply_to(turn, confirmed=confirmed)).result().tasks["t"].status == "successful"
    (response,) = asked(agent)[1].contents[-1].function_responses()
    assert response.response == told if told is not None else "error" in response.response


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


def test_pieces_of_answers_are_streamed_with_their_tasks(local: Deploy) -> None:
    agent = worker("a", {"stream": ["One ", "two"]}, succeed("t", "x"))
    with local(Flow([Task("1", name="t")], agents=[agent])) as rt:
        turn = rt.run(**ME, message="go", run_config=RunConfig(streaming="sse"))
        pieces: list[Event] = [event for event in turn if event.partial and event.text]
    assert [(event.text, event.flow.tasks) for event in pieces if event.flow is not None] == [("One ", ("t",)), ("two", ("t",))]


def test_after_a_flow_the_conversation_goes_on_as_ever(local: Deploy) -> None:
    agent = worker("a", succeed("t", "found"), "Hello again.")
    root = LlmAgent(name="root", model=ScriptedModel([]), sub_agents=[agent])
    with local(root) as rt:
        rt.run_flow(Flow([Task("1", name="t")], agents=[agent]), **ME).result()
        turn = rt.run(**ME, message="hi")
        assert (turn.agent, turn.result().text) == ("a", "Hello again.")


def test_a_runtime_of_agents_alone_takes_tasks_as_they_come(local: Deploy) -> None:
    agents = [worker("a", succeed("task_1", "1")), worker("b")]
    with local(Flow(agents=agents, name="office")) as rt:
        assert rt.run_task("Do it") == "1"
        with pytest.raises(DefinitionError, match="has no tasks"):
            rt.run_flow(Flow(agents=agents), **ME)


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


@pytest.mark.parametrize("at_once", [True, False])
def test_several_agents_may_wait_for_the_user(local: Deploy, at_once: bool) -> None:
    agents = [
        worker(name, {"call": "ask_user", "args": {"question": name}}, succeed(name, name), tools=[ask_user]) for name in "ab"
    ]
    with local(Flow([Task("1", name=agent.name, agents=[agent]) for agent in agents])) as rt:
        turn = rt.run(**ME, message="go")
        assert isinstance(turn.result().outcome, Paused)
        calls = [call for event in turn for call in event.function_calls()]
        parts = [Part(function_response=FunctionResponse(id=call.id, name=call.name, response={"told": "x"})) for call in calls]
        for answer in [parts] if at_once else [parts[:1], parts[1:]]:
            last = rt.run(**ME, message=Content(role="user", parts=answer)).result()
            assert isinstance(last.outcome, Paused) == (answer == parts[:1])
    assert {name: task.result for name, task in last.tasks.items()} == {"a": "a", "b": "b"}
    assert [len(asked(agent)) for agent in agents] == [2, 2]


def test_a_deployed_flow_can_be_run_in_parts_and_its_results_are_typed_after_a_pause_too(local: Deploy) -> None:
    agent = worker(
        "a", {"call": "ask_user", "args": {"question": "?"}}, succeed("t", {"name": "Ada", "age": 36}), tools=[ask_user]
    )
    flow = Flow([Task("1", name="t", result_type=Person), Task("2", name="u", depends_on=["t"])], agents=[agent])
    with local(flow) as rt:
        turn = rt.run_flow(flow, **ME, tasks=["t"])
        assert isinstance(turn.result().outcome, Paused)
        answered = rt.run(**ME, message=reply_to(turn, told="x")).result()
        attached = rt.attach(**ME, invocation_id=turn.invocation_id).result()
    assert answered.tasks["t"].result == attached.tasks["t"].result == Person(name="Ada", age=36)
    assert answered.tasks["u"].status == "pending"


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


def test_a_question_whose_task_was_done_without_its_answer_keeps_nobody_waiting(local: Deploy) -> None:
    both = {"parts": [{"call": "ask_user", "args": {"question": "?"}}, succeed("t", "x")]}
    agent = worker("a", both, succeed("u", "y"), tools=[ask_user])
    with local(Flow([Task("1", name="t"), Task("2", name="u", depends_on=["t"])], agents=[agent])) as rt:
        result = rt.run(**ME, message="go").result()
    assert not isinstance(result.outcome, Paused)
    assert {name: task.result for name, task in result.tasks.items()} == {"t": "x", "u": "y"}
