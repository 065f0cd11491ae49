"""Agents in the background, together with other features: each run ends once, and each end is heard once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import AgentTool, BackgroundRun, LlmAgent, tool
from actors.messages.protocol.outcomes import Finished, Paused
from actors.testing import PatternModel, ScriptedModel
from runtime import Runtime
from tests.acceptance.sessions.test_background import ASK, answered, ask, ended, log, only_run, tree, until
from tests.support.agents.conversation_tools import Gate
from tests.support.runtimes import Deploy, stored


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A gate that is released when the test has ended, also when it failed."""
    made = Gate(tmp_path)
    yield made
    made.release()


@pytest.fixture
def local(tmp_path: Path) -> Deploy:
    return Deploy("local", tmp_path)


@tool(long_running=True)
def approve() -> None:
    """Ask the user."""


def told(rt: Runtime) -> list[str]:
    """The ends of runs that the log of the parent has."""
    return [line.removeprefix("user: ") for line in log(rt) if line.startswith("user: Background run ")]


def waiting(rt: Runtime) -> BackgroundRun:
    """The only run, once it waits for the user."""
    until(lambda: only_run(rt).status == "waiting", "the run never waits")
    return only_run(rt)


WAITS = {"helper": [{"call": "approve"}, "approved"], "tools": [approve]}


def test_a_run_waits_for_the_user_and_goes_on_when_it_is_answered(deploy: Deploy) -> None:
    agent, _ = tree(ASK, "begun", "it asks", "thanks", **WAITS)  # type: ignore[arg-type]
    with deploy(agent) as rt:
        ask(rt)
        run = waiting(rt)
        answered(rt, "root: it asks")
        [call] = [each for each in rt.pending(user_id="ada") if each.session_id == run.run_session_id]
        assert rt.answer(call, {"allowed": True}).result().text == "approved"
        assert ended(rt).status == "done"
        answered(rt, "root: thanks")
        assert [line.partition(run.id)[2] for line in told(rt)] == [
            " of helper waits for an answer of the user. It says:\n",
            " of helper is done. It says:\napproved",
        ]


def test_a_run_that_waits_for_the_user_is_cancelled(local: Deploy) -> None:
    agent, _ = tree(ASK, "begun", "it asks", "a pity", **WAITS)  # type: ignore[arg-type]
    with local(agent) as rt:
        ask(rt)
        run = waiting(rt)
        answered(rt, "root: it asks")
        rt.background.cancel("ada", "s1", run.id)
        assert ended(rt).status == "cancelled"
        answered(rt, "root: a pity")
        assert len(told(rt)) == 2


def test_a_run_whose_session_is_deleted_has_ended(local: Deploy) -> None:
    agent, model = tree(ASK, "begun", "it asks", "I see", **WAITS)  # type: ignore[arg-type]
    with local(agent) as rt:
        ask(rt)
        run = waiting(rt)
        answered(rt, "root: it asks")
        rt.sessions.delete("ada", run.run_session_id)
        assert ended(rt).status == "cancelled"
        assert ask(rt, "well?") == "I see"
        assert model.requests[-1].contents[-1].text.endswith("of helper was cancelled.")


def test_an_agent_that_asks_the_user_hears_of_an_end_in_its_task(local: Deploy, gate: Gate) -> None:
    helper = LlmAgent(name="helper", model=ScriptedModel([{"call": "wait"}, "42"]), tools=[gate.tool()])
    finish = {"call": "finish_task", "args": {"result": "Rome"}}
    model = PatternModel([("begin", ASK), ("Background run", "heard"), ("Rome", finish)], default="Where?")
    root = LlmAgent(name="root", model=model, tools=[AgentTool(helper, background=True)], mode="task")
    with local(root) as rt:
        assert isinstance(rt.run(user_id="ada", session_id="s1", message="begin").result().outcome, Paused)
        gate.open()
        answered(rt, "root: heard")
        until(lambda: rt.turns.counts().running == 0)
        assert isinstance(rt.run(user_id="ada", session_id="s1", message="Rome").result().outcome, Finished)
        assert [turn.state for turn in rt.turns.list() if turn.session_id == "s1"] == ["finished"]


def test_each_of_many_runs_that_start_together_ends(local: Deploy) -> None:
    calls = {"parts": [{"call": "helper", "args": {"request": f"r{number}"}} for number in range(12)]}
    helper = LlmAgent(name="helper", model=PatternModel([], default="42"))
    model = PatternModel([("begin", calls), ("Background run", "heard")], default="begun")
    with local(LlmAgent(name="root", model=model, tools=[AgentTool(helper, background=True)])) as rt:
        ask(rt)
        runs = rt.background.wait("ada", "s1", timeout_s=10)
        assert [run.status for run in runs] == ["done"] * 12
        until(lambda: len(told(rt)) == 12)
        assert len(set(told(rt))) == 12


def test_nothing_begins_a_turn_of_a_run_that_was_cancelled(local: Deploy, gate: Gate) -> None:
    leaf = LlmAgent(name="leaf", model=ScriptedModel([{"call": "wait"}, "never"]), tools=[gate.tool()])
    model = ScriptedModel([{"call": "leaf", "args": {"request": "go"}}, {"call": "wait"}, "never"])
    helper = LlmAgent(name="helper", model=model, tools=[gate.tool(), AgentTool(leaf, background=True)])
    root = LlmAgent(name="root", model=ScriptedModel([ASK, "begun", "a pity"]), tools=[AgentTool(helper, background=True)])
    with local(root) as rt:
        ask(rt)
        run = only_run(rt)
        until(lambda: len(rt.background.list("ada", run.run_session_id)) == 1)
        until(lambda: rt.turns.counts().running == 2)
        rt.background.cancel("ada", "s1", run.id)
        [below] = rt.background.wait("ada", run.run_session_id, timeout_s=30)
        assert (ended(rt).status, below.status) == ("cancelled", "cancelled")
        answered(rt, "root: a pity")
        # What waits for it is dropped, and begins no turn in which it would end once more.
        until(lambda: rt.turns.counts().running + rt.turns.counts().waiting == 0)
        assert [turn.session_id for turn in rt.turns.list(user_id="ada")].count(run.run_session_id) == 1
        assert len(told(rt)) == 1
        assert only_run(rt).status == "cancelled"
        assert not any(event.text.startswith("Background run") for event in stored(rt, run.run_session_id))


def test_a_turn_that_was_cancelled_while_it_waited_has_not_heard_the_end(deploy: Deploy, gate: Gate) -> None:
    agent, _ = tree(ASK, {"call": "wait_for_runs"}, "it was 42", helper=[{"call": "wait"}, "42"], tools=[gate.tool()])
    with deploy(agent) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="begin")
        gate.wait_for_caller()
        until(lambda: sum(any(event.function_calls()) for event in stored(rt)) == 2)
        turn.cancel()
        gate.open()
        answered(rt, "root: it was 42")
        assert len(told(rt)) == 1
