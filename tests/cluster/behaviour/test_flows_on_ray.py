"""Flows on Ray: agents in their own processes, side by side, and definitions that come while the deployment runs."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest
import ray

from actors import (
    Content,
    Flow,
    FunctionCall,
    FunctionResponse,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Part,
    Paused,
    Task,
    create_tasks,
    tool,
)
from actors.errors import FlowLimitExceededError, UnknownAgentError
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.agents.conversation_tools import Gate
from tests.support.models.waiting_model import GatedModel
from tests.support.runtimes import Deploy, run_turn, stored

pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.sampled(3, of="module")]


class TaskModelAtGate:
    """A model that waits at a gate before it finishes its first task."""

    def __init__(self, gate: Path) -> None:
        self.gate = gate

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await asyncio.to_thread((self.gate / "gate").read_text)
        yield finished(request)


class GatedTaskModel(GatedModel):
    """A GatedModel that finishes its first task when it is released."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        async for _ in super().generate(request, stream=stream):
            yield finished(request)


def finished(request: LlmRequest) -> LlmResponse:
    """The answer that finishes the first task, with the process as its result."""
    finish = next(tool.name for tool in request.tools if tool.name.startswith("succeed_"))
    made = FunctionCall(name=finish, args={"result": str(os.getpid())})
    return LlmResponse(content=Content(role="model", parts=[Part(function_call=made)]))


class Person(pydantic.BaseModel):
    name: str


@tool(long_running=True)
def ask_user() -> None:
    """Ask the user."""


def test_independent_tasks_are_done_at_the_same_time_in_three_processes(tmp_path: Path) -> None:
    agents = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        Gate(tmp_path / name)
        agents.append(LlmAgent(name=name, model=TaskModelAtGate(tmp_path / name)))
    flow = Flow([Task("look", name=f"by_{agent.name}", agents=[agent]) for agent in agents])
    with Deploy("ray", tmp_path)(flow) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        # Opening a gate blocks until an agent waits there: all three do before the first goes on.
        held = [os.open(tmp_path / agent.name / "gate", os.O_WRONLY) for agent in agents]
        for gate in held:
            os.close(gate)
        tasks_done = turn.result().tasks
        live = rt.statistics().agents
        assert live.keys() == {"flow", "a", "b", "c"}
        pids = {name: str(agent.pid) for name, agent in live.items()}
        assert len(set(pids.values())) == 4
        assert {name: task.result for name, task in tasks_done.items()} == {
            "by_a": pids["a"],
            "by_b": pids["b"],
            "by_c": pids["c"],
        }


def test_a_flow_is_completed_although_its_controller_and_an_agent_are_killed(tmp_path: Path) -> None:
    finishes = PatternModel([], default=succeed("plan", "three parts"))
    planner = LlmAgent(name="planner", model=finishes)
    waiting = GatedTaskModel(tmp_path, "")
    writer = LlmAgent(name="writer", model=waiting)
    plan = Task("Plan", name="plan", agents=[planner])
    with Deploy("ray", tmp_path)(Flow([Task("Write", name="write", agents=[writer], depends_on=[plan])])) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        waiting.wait_until_called()
        live = rt.statistics().agents
        for agent in ("flow", "writer"):
            os.kill(live[agent].pid, signal.SIGKILL)
        waiting.wait_until_called()
        waiting.release()
        tasks = turn.result().tasks
        written = rt.statistics().agents["writer"].pid
        assert written != live["writer"].pid
        assert {name: task.result for name, task in tasks.items()} == {"plan": "three parts", "write": str(written)}
        calls = [call.name for event in turn for call in event.function_calls()]
        assert calls == ["succeed_plan", "succeed_write"]
        assert rt.statistics().agents["planner"].counts["runs"] == 1


def succeed(task: str, result: Any) -> dict[str, Any]:
    return {"call": f"succeed_{task}", "args": {"result": result}}


def test_flows_that_are_no_part_of_the_tree(tmp_path: Path) -> None:
    plan = {"tasks": [{"name": "more", "objective": "dig", "agents": ["a"]}], "part_of": "plan"}
    model = ScriptedModel(
        [
            succeed("task_1", {"name": "Ada"}),
            {"call": "ask_user"},
            succeed("t", "blue"),
            "talk",
            {"call": "create_tasks", "args": plan},
            succeed("more", "gold"),
            succeed("plan", "done"),
            "Hello.",
        ]
    )
    agents = [LlmAgent(name="a", tools=[ask_user]), LlmAgent(name="b", tools=[create_tasks])]
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=model, sub_agents=agents)) as rt:
        assert rt.run_task("Who?", result_type=Person, agents=["a"]) == Person(name="Ada")

        turn = rt.run_flow(Flow([Task("Which?", name="t", agents=["a"])]), user_id="ada", session_id="s1")
        assert isinstance(turn.result().outcome, Paused)
        (call,) = [call for event in turn for call in event.function_calls()]
        part = Part(function_response=FunctionResponse(id=call.id, name=call.name, response={"told": "blue"}))
        answered = rt.run(user_id="ada", session_id="s1", message=Content(role="user", parts=[part]))
        assert answered.result().tasks["t"].result == "blue"

        with pytest.raises(FlowLimitExceededError, match="max_rounds=1"):
            rt.run_flow(Flow([Task("x", name="t", agents=["a"])], max_rounds=1), user_id="ada", session_id="s2").result()

        flow = Flow([Task("Plan", name="plan", agents=["b"])], agents=["a", "b"])
        planned = rt.run_flow(flow, user_id="ada", session_id="s3").result().tasks
        assert {name: task.result for name, task in planned.items()} == {"plan": "done", "more": "gold"}

        # However many flows were run, one controller did it.
        assert rt.statistics().agents.keys() == {"@controller", "a", "b"}
        assert [event.text for event in run_turn(rt, "hi", "s4")] == ["Hello."]


def kill(rt: Runtime, part: Literal["runner", "session"]) -> None:
    """Kill the process of an actor, and wait until Ray has started it again, and ended the agents of a Runner."""
    seen = rt.statistics()
    pid = getattr(seen, part).pid
    agents = {os.pidfd_open(each) for each in {agent.pid for agent in seen.agents.values()}} if part == "runner" else set()
    os.kill(pid, signal.SIGKILL)
    assert getattr(rt.statistics(), part).pid != pid
    for agent in agents:
        # One that lives on could take what the test gives to its successor.
        assert select.select([agent], [], [], 60)[0]
        os.close(agent)


@pytest.mark.full
@pytest.mark.parametrize(
    "settings", [Settings(), Settings(standby_runners=True, standby_sessions=True)], ids=["alone", "standbys"]
)
def test_a_joined_program_runs_flows_of_its_own_which_outlive_runner_and_session_actor(
    tmp_path: Path, settings: Settings
) -> None:
    planner = LlmAgent(name="planner", model=PatternModel([], default=succeed("plan", {"name": "Ada"})))
    waiting = GatedTaskModel(tmp_path, "")
    root = LlmAgent(
        name="root", model=PatternModel([], default="hello"), sub_agents=[planner, LlmAgent(name="writer", model=waiting)]
    )
    plan = Task("Who?", name="plan", agents=["planner"], result_type=Person)
    flow = Flow([Task("Write", name="write", agents=["writer"], depends_on=[plan])])
    with Deploy("ray", tmp_path)(root, settings=settings), Runtime.connect("test") as rt:
        turn = rt.run_flow(flow, user_id="ada", session_id="s1")
        waiting.wait_until_called()
        kill(rt, "runner")
        waiting.wait_until_called()
        kill(rt, "session")
        # The new Session actor gets the flow from the Runner, before that is lost again.
        leading = "session-standby" if settings.standby_sessions else "session"
        session: Any = ray.get_actor(f"test/{leading}", settings.namespace)
        while not ray.get(session.plan_names.remote()):
            pass
        kill(rt, "runner")
        waiting.wait_until_called()
        waiting.release()
        tasks = turn.result().tasks
        assert tasks["plan"].result == Person(name="Ada")
        assert tasks["write"].result == str(rt.statistics().agents["writer"].pid)
        assert [call.name for event in stored(rt) for call in event.function_calls()] == ["succeed_plan", "succeed_write"]

        assert rt.run_task("Who?", name="plan", result_type=Person, agents=["planner"]) == Person(name="Ada")
        with pytest.raises(UnknownAgentError, match="Did you mean 'writer'"):
            rt.run_flow(Flow([Task("x", agents=["writr"])]), user_id="ada", session_id="s2")
