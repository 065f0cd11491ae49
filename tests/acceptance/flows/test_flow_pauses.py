"""Flows that wait for the user, and go on where they were (semantics.md section 7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import Content, Flow, FunctionResponse, LlmAgent, Part, Paused, Task, tool
from actors.testing import ScriptedModel
from tests.support.agents.flow_agents import ME, Person, ask_user, asked, paused_flow, reply_to, succeed, worker
from tests.support.runtimes import Deploy


@tool(require_confirmation=True)
def delete(what: str) -> str:
    """Delete something."""
    return f"{what} is gone"


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


def test_a_question_whose_task_was_done_without_its_answer_keeps_nobody_waiting(local: Deploy) -> None:
    both = {"parts": [{"call": "ask_user", "args": {"question": "?"}}, succeed("t", "x")]}
    agent = worker("a", both, succeed("u", "y"), tools=[ask_user])
    with local(Flow([Task("1", name="t"), Task("2", name="u", depends_on=["t"])], agents=[agent])) as rt:
        result = rt.run(**ME, message="go").result()
    assert not isinstance(result.outcome, Paused)
    assert {name: task.result for name, task in result.tasks.items()} == {"t": "x", "u": "y"}
