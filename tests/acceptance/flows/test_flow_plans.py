"""Tasks that agents make while a flow runs (semantics.md section 7)."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Flow, Task, create_tasks
from actors.testing.models import Reply
from tests.support.agents.flow_agents import ME, asked, states, succeed, worker
from tests.support.runtimes import Deploy


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
