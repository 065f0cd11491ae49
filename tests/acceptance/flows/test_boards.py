"""`rt.turns.boards`: the tasks of flows, what each needs, who works on it, and what came of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import Flow, LlmAgent, Task
from actors.errors import InvocationNotFoundError
from actors.testing import PatternModel
from runtime import FlowBoard, Runtime
from tests.support.agents.flow_agents import ME, ask_user, reply_to, succeed, worker
from tests.support.models.waiting_model import GatedModel
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn


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
