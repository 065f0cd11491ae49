"""Agents in the background, together with other features: each run ends once, and each end is heard once."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from actors import (
    AgentTool,
    Background,
    BackgroundRun,
    Budget,
    LlmAgent,
    RunConfig,
    ToolContext,
    ask_parent,
    tool,
)
from actors.errors import RunNotFoundError, SessionBusyError, StoreError, TurnCancelledError
from actors.messages.protocol.runs import Finished, Paused
from actors.messages.session import SessionKey, run_of
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.finding import TurnQuery
from runtime.settings import Settings
from runtime.stores.artifacts import FsspecArtifactStore
from tests.acceptance.sessions.test_background import ASK, answered, ask, ended, listen, log, only_run, tree, until
from tests.support.agents.conversation_tools import Gate, archive, forever
from tests.support.runtimes import Deploy, stored
from tests.support.several_stores import store_files
from tests.support.sharded_runtimes import SHARDS, ShardedDeploy, one_session_per_shard
from tests.support.stores.sqlite_lock import SqliteLock


@tool(long_running=True)
def approve() -> None:
    """Ask the user."""


def told(rt: Runtime) -> list[str]:
    """The ends of runs that the log of the parent has."""
    return [line.removeprefix("user: ") for line in log(rt) if line.startswith("user: Background run ")]


def waiting(rt: Runtime) -> BackgroundRun:
    """The only run, once it waits for the user."""
    until(lambda: only_run(rt).status == "waiting")
    return only_run(rt)


def working(gate: Gate, *replies: Any, **options: Any) -> LlmAgent:
    """A root whose helper waits at the gate, and says 42 then."""
    return tree(*replies, helper=[{"call": "wait"}, "42"], tools=[gate.tool()], **options)[0]


def at_work(rt: Runtime, gate: Gate) -> BackgroundRun:
    """The only run, whose helper is at the gate."""
    ask(rt)
    gate.wait_for_caller()
    return only_run(rt)


def is_idle(rt: Runtime) -> bool:
    return rt.turns.counts().open == 0


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


def test_the_end_of_a_run_is_told_when_the_store_is_back(local: Deploy, tmp_path: Path) -> None:
    locker = SqliteLock(tmp_path / "sessions.db")

    def lock() -> str:
        """Lock the store."""
        locker.__enter__()
        return "locked"

    agent, _ = tree(ASK, "begun", "a pity", helper=[{"call": "lock"}, "never"], tools=[lock])
    with local(agent, settings=Settings(store_timeout_s=0.4)) as rt:
        ask(rt)
        until(lambda: rt.statistics().session.counts["ends_owed"] == 1)
        locker.release()
        assert ended(rt).status == "failed"
        answered(rt, "root: a pity")
        assert len(told(rt)) == 1
        locker.__exit__(None, None, None)


def test_a_budget_of_the_turn_bounds_each_run_by_itself(local: Deploy) -> None:
    agent, _ = tree(ASK, "begun", "a pity", helper=[{"call": "listen"}, {"call": "listen"}, "never"], tools=[listen])
    with local(agent) as rt:
        ask(rt, run_config=RunConfig(budget=Budget(llm_calls=2)))
        for _ in range(2):
            rt.background.steer("ada", "s1", only_run(rt).id, "more")
        run = ended(rt)
        assert (run.status, "budget" in run.error) == ("failed", True)
        answered(rt, "root: a pity")


def test_runs_count_for_the_budget_of_their_user(local: Deploy, gate: Gate) -> None:
    with local(working(gate, ASK, "begun")) as rt:
        config = RunConfig(user_daily_budget=Budget(llm_calls=3))
        ask(rt, run_config=config)
        gate.open()
        run = ended(rt)
        assert (run.status, "budget of user 'ada' today" in run.error) == ("failed", True)


def test_a_run_goes_on_in_its_version_when_the_tree_is_updated(deploy: Deploy, gate: Gate) -> None:
    later, model = tree("it was 42", helper=["43"])
    with deploy(working(gate, ASK, "begun")) as rt:
        at_work(rt, gate)
        rt.update(later)
        gate.open()
        assert ended(rt).result == "42"
        answered(rt, "root: it was 42")
        assert model.requests[0].contents[-1].text.endswith("42")


def test_a_drain_waits_for_runs_and_their_ends(deploy: Deploy, gate: Gate) -> None:
    rt = deploy(working(gate, ASK, "begun", "it was 42")).start()
    at_work(rt, gate)
    drain = threading.Thread(target=rt.drain)
    drain.start()
    gate.open()
    drain.join()
    with deploy(working(gate, "it was 42")) as again:
        assert ended(again).result == "42"
        answered(again, "root: it was 42")
        assert len(told(again)) == 1


def test_a_run_goes_on_in_the_next_deployment(deploy: Deploy, gate: Gate) -> None:
    rt = deploy(working(gate, ASK, "begun")).start()
    at_work(rt, gate)
    rt.close(leave_turns=True)
    gate.release()
    gate.forget_callers()
    agent, _ = tree("it was 42", helper=["42"], tools=[gate.tool()])
    with deploy(agent) as rt:
        gate.wait_for_caller()
        gate.open()
        assert ended(rt).result == "42"
        answered(rt, "root: it was 42")
        assert len(told(rt)) == 1


def test_a_user_is_moved_to_another_store_between_runs(deploy: Deploy, gate: Gate, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 2)
    with deploy(working(gate, ASK, "begun", "it was 42", "I see"), session_store=urls) as rt:
        run = at_work(rt, gate)
        there = next(url for url in urls if rt.users.move("bob", url).rows == 0)
        gate.open()
        answered(rt, "root: it was 42")
        until(lambda: is_idle(rt))
        for url in (there, *urls):
            rt.users.move("ada", url)
            assert ended(rt).id == run.id
            assert len(stored(rt, run.run_session_id)) == 4
        assert ask(rt, "well?") == "I see"


def test_runs_are_served_by_the_actors_of_their_session(tmp_path: Path, server: str) -> None:
    sessions = one_session_per_shard("test", "ada", SHARDS)
    helper = LlmAgent(name="helper", model=PatternModel([], default="42"))
    model = PatternModel([("begin", ASK), ("Background run", "heard")], default="begun")
    root = LlmAgent(name="root", model=model, tools=[AgentTool(helper, background=True)])
    with ShardedDeploy("local", tmp_path, server)(root) as rt:
        for session in sessions:
            rt.run(user_id="ada", session_id=session, message="begin")
        for session in sessions:
            until(lambda session=session: [event.text for event in stored(rt, session)][-1:] == ["heard"])  # type: ignore[misc]
            assert [run.status for run in rt.background.list("ada", session)] == ["done"]
            assert sum(event.text.startswith("Background run") for event in stored(rt, session)) == 1


def test_a_fork_hears_nothing_and_has_no_runs(local: Deploy, gate: Gate) -> None:
    with local(working(gate, ASK, "begun", "it was 42")) as rt:
        at_work(rt, gate)
        [turn] = [turn for turn in rt.turns.list() if turn.session_id == "s1"]
        rt.sessions.fork("ada", "s1", turn.invocation_id, "fork")
        gate.open()
        answered(rt, "root: it was 42")
        assert rt.background.list("ada", "fork") == []
        assert not any(event.text.startswith("Background run") for event in stored(rt, "fork"))


def test_a_run_whose_start_was_rewound_is_told_all_the_same(local: Deploy, gate: Gate) -> None:
    with local(working(gate, ASK, "begun", "it was 42")) as rt:
        at_work(rt, gate)
        [turn] = [turn for turn in rt.turns.list() if turn.session_id == "s1"]
        rt.sessions.rewind("ada", "s1", turn.invocation_id)
        assert log(rt) == []
        gate.open()
        assert answered(rt, "root: it was 42")[0].startswith("user: Background run ")
        assert len(told(rt)) == 1


def test_a_schedule_of_the_session_and_another_user_disturb_no_run(local: Deploy, gate: Gate) -> None:
    with local(working(gate, ASK, "begun", "on time", "bob's", "it was 42")) as rt:
        run = at_work(rt, gate)
        rt.schedules.create("once", user_id="ada", session_id="s1", message="now", at=time.time())
        answered(rt, "root: on time")
        assert rt.run(user_id="bob", session_id="s1", message="hi").result().text == "bob's"
        assert rt.background.list("bob", "s1") == []
        with pytest.raises(RunNotFoundError):
            rt.background.cancel("bob", "s1", run.id)
        gate.open()
        answered(rt, "root: it was 42")
        assert rt.schedules.list(user_id="ada") == []


def test_runs_are_deleted_with_their_user(local: Deploy, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    with local(working(gate, ASK, "begun", "new")) as rt:
        run = at_work(rt, gate)
        rt.users.delete("ada")
        gate.open()
        until(lambda: is_idle(rt))
        assert rt.background.list("ada", "s1") == []
        assert stored(rt, run.run_session_id) == stored(rt) == []
        assert ask(rt, "again") == "new"
        assert not caplog.records


def test_a_run_that_is_retried_ends_once_more(local: Deploy) -> None:
    agent, _ = tree(ASK, "begun", "a pity", "it was 42", helper=[ValueError("no network"), "42"])
    with local(agent) as rt:
        ask(rt)
        run = ended(rt)
        answered(rt, "root: a pity")
        [turn] = [turn for turn in rt.turns.list() if turn.session_id == run.run_session_id]
        again = rt.retry(user_id="ada", session_id=run.run_session_id, invocation_id=turn.invocation_id)
        assert again.result().text == "42"
        answered(rt, "root: it was 42")
        assert (only_run(rt).status, only_run(rt).result, len(told(rt))) == ("done", "42", 2)


def test_a_run_that_is_retried_works_as_before(local: Deploy, gate: Gate) -> None:
    asks = {"call": "ask_parent", "args": {"question": "which one?"}}
    helper = [ValueError("no network"), {"call": "wait"}, asks, "the red one"]
    agent, _ = tree(ASK, "begun", "a pity", "let me see", "thanks", helper=helper, tools=[gate.tool(), ask_parent])
    with local(agent) as rt:
        ask(rt)
        run = ended(rt)
        answered(rt, "root: a pity")
        [turn] = rt.turns.retry_all(TurnQuery(state="failed")).done
        assert turn.session_id == run.run_session_id == f"s1~{run.id}"
        gate.wait_for_caller()
        now = only_run(rt)
        assert (now.status, now.error, now.ended_s) == ("running", "", 0.0)
        with pytest.raises(SessionBusyError):
            rt.sessions.delete("ada", "s1")
        gate.open()
        answered(rt, "root: let me see")
        assert rt.background.steer("ada", "s1", run, "red").status == "running"
        assert ended(rt).result == "the red one"
        answered(rt, "root: thanks")


def test_a_run_that_is_answered_runs_until_it_ends(local: Deploy, gate: Gate) -> None:
    helper = [{"call": "approve"}, {"call": "wait"}, "never"]
    agent, _ = tree(ASK, "begun", "it asks", "a pity", helper=helper, tools=[approve, gate.tool()])
    with local(agent) as rt:
        ask(rt)
        waiting(rt)
        answered(rt, "root: it asks")
        [call] = rt.pending(user_id="ada")
        rt.answer(call, {"allowed": True}, on_leave="continue")
        gate.wait_for_caller()
        run = only_run(rt)
        assert (run.status, run.result) == ("running", "")
        rt.background.cancel("ada", "s1", run)
        assert ended(rt).status == "cancelled"
        answered(rt, "root: a pity")


def test_a_run_that_a_late_message_has_begun_again_is_cancelled(local: Deploy, gate: Gate) -> None:
    agent, _ = tree(ASK, "begun", "it was 42", "a pity", helper=["42", {"call": "wait"}, "never"], tools=[gate.tool()])
    with local(agent) as rt:
        ask(rt)
        run = ended(rt)
        answered(rt, "root: it was 42")
        rt.run(
            user_id="ada",
            session_id=run.run_session_id,
            message="more",
            run_config=RunConfig(agent="helper"),
            on_leave="continue",
        )
        gate.wait_for_caller()
        assert only_run(rt).status == "running"
        rt.background.cancel("ada", "s1", run)
        assert ended(rt).status == "cancelled"
        answered(rt, "root: a pity")


def test_each_question_gets_its_own_answer(local: Deploy) -> None:
    answers = {"which colour?": "red", "how many?": "two"}
    calls = {"parts": [{"call": "ask_parent", "args": {"question": question}} for question in answers]}
    helper = LlmAgent(name="helper", model=ScriptedModel([calls, "two red ones"]), tools=[ask_parent])
    model = PatternModel([("begin", ASK)], default="heard")
    with local(LlmAgent(name="root", model=model, tools=[AgentTool(helper, background=True)])) as rt:
        ask(rt)
        run, heard = only_run(rt), list[str]()
        for number in (1, 2):
            # The parent has read all that was asked; the last question is answered first.
            until(lambda number=number: len(told(rt)) >= number and rt.turns.counts().open == 1)  # type: ignore[misc]
            question = next(line for line in reversed(told(rt)) if line not in heard)
            heard.append(question)
            rt.background.steer("ada", "s1", run, answers[question.partition("\n")[2]])
        assert ended(rt).result == "two red ones"
        responses = [each.response for event in stored(rt, run.run_session_id) for each in event.function_responses()]
        assert responses == [{"answer": answer} for answer in answers.values()]


def saved(rt: Runtime, **options: Any) -> BackgroundRun:
    """A run that has ended, and has saved an artifact."""
    ask(rt, **options)
    run = ended(rt)
    assert rt.artifacts.list_keys("ada", run.run_session_id) == ["notes"]
    return run


SAVES: dict[str, Any] = {
    "helper": [{"call": "archive", "args": {"name": "notes", "text": "42"}}, "42"],
    "tools": [archive],
    "on_done": "wait",
}


def test_artifacts_of_runs_are_deleted_with_the_session(deploy: Deploy) -> None:
    with deploy(tree(ASK, "begun", **SAVES)[0]) as rt:
        run = saved(rt)
        rt.sessions.delete("ada", "s1")
        assert rt.artifacts.list_keys("ada", run.run_session_id) == []
        assert rt.sessions.prune(0.001).sessions == 0


def test_artifacts_of_runs_are_pruned_with_an_older_session(local: Deploy, gate: Gate) -> None:
    helper = [*SAVES["helper"][:1], {"call": "wait"}, "42"]
    with local(tree(ASK, "begun", helper=helper, tools=[archive, gate.tool()], on_done="wait")[0]) as rt:
        run = at_work(rt, gate)
        assert rt.artifacts.list_keys("ada", run.run_session_id) == ["notes"]
        since_s = time.time()
        gate.open()
        ended(rt)
        pruned = rt.sessions.prune(time.time() - since_s)
        assert rt.artifacts.list_keys("ada", run.run_session_id) == []
        assert (pruned.sessions, pruned.events, pruned.turns, pruned.artifacts) == (2, 10, 2, 1)


class AwayOnce(FsspecArtifactStore):
    """Cannot delete the artifacts of a run the first time."""

    is_away = True

    def delete_session(self, key: SessionKey) -> int:
        if self.is_away and run_of(key.session) is not None:
            self.is_away = False
            raise OSError("the bucket is away")
        return super().delete_session(key)


def test_artifacts_of_runs_that_could_not_be_deleted_are_so_when_the_session_is_deleted_again(
    local: Deploy, tmp_path: Path
) -> None:
    with local(tree(ASK, "begun", **SAVES)[0], artifact_store=AwayOnce(str(tmp_path / "bucket"))) as rt:
        run = saved(rt)
        with pytest.raises(StoreError, match="the bucket is away"):
            rt.sessions.delete("ada", "s1")
        assert rt.background.list("ada", "s1") == []
        assert rt.artifacts.list_keys("ada", run.run_session_id) == ["notes"]
        rt.sessions.delete("ada", "s1")
        assert rt.artifacts.list_keys("ada", run.run_session_id) == []


def test_a_turn_that_is_interrupted_hears_the_end_in_the_next(local: Deploy, gate: Gate) -> None:
    agent = working(gate, ASK, {"call": "forever"}, "next", "it was 42")
    agent = agent.model_copy(update={"tools": [*agent.tools, forever]})
    with local(agent) as rt:
        first = rt.run(user_id="ada", session_id="s1", message="begin")
        gate.wait_for_caller()
        assert ask(rt, "now", run_config=RunConfig(on_concurrent_turn="interrupt")) == "next"
        with pytest.raises(TurnCancelledError):
            first.result()
        gate.open()
        answered(rt, "root: it was 42")
        assert len(told(rt)) == 1


def test_a_run_that_is_cancelled_as_it_ends_has_one_end(local: Deploy) -> None:
    helper = LlmAgent(name="helper", model=PatternModel([], default="42"))
    model = PatternModel([("begin", ASK), ("Background run", "heard")], default="begun")
    with local(LlmAgent(name="root", model=model, tools=[AgentTool(helper, background=True)])) as rt:
        for number in range(40):
            session = f"s{number}"
            rt.run(user_id="ada", session_id=session, message="begin").result()
            [run] = rt.background.list("ada", session)
            # Each a little later.
            for _ in range(number % 8):
                rt.background.list("ada", session)
            rt.background.cancel("ada", session, run.id)
            [run] = rt.background.wait("ada", session, timeout_s=10)
            assert run.is_over
        until(lambda: is_idle(rt))
        for number in range(40):
            assert sum(event.text.startswith("Background run") for event in stored(rt, f"s{number}")) == 1


def test_a_session_is_not_pruned_while_its_runs_work(local: Deploy, gate: Gate) -> None:
    with local(working(gate, ASK, "begun", "it was 42")) as rt:
        run = at_work(rt, gate)
        assert rt.sessions.prune(0.001).sessions == 0
        gate.open()
        answered(rt, "root: it was 42")
        until(lambda: is_idle(rt))
        rt.sessions.prune(0.001)
        assert rt.background.list("ada", "s1") == []
        assert stored(rt, run.run_session_id) == stored(rt) == []


def test_an_end_does_not_wait_for_what_the_parent_asks_the_user(local: Deploy, gate: Gate) -> None:
    agent = working(gate, ASK, {"call": "approve"}, "it was 42", "approved")
    agent = agent.model_copy(update={"tools": [*agent.tools, approve]})
    with local(agent) as rt:
        ask(rt)
        [call] = rt.pending(user_id="ada")
        gate.open()
        answered(rt, "root: it was 42")
        assert rt.answer(call, {"allowed": True}).result().text == "approved"
        assert len(told(rt)) == 1


@tool
async def start_many(tool_context: ToolContext) -> None:
    """Start more runs than messages may wait."""
    background = Background(on_done="wait", most=200, most_in_all=200)
    for _ in range(101):
        await tool_context.start("helper", "look it up", background=background)


def test_ends_that_wait_for_the_next_turn_leave_the_user_room_for_messages(local: Deploy, gate: Gate) -> None:
    helper = LlmAgent(name="helper", model=PatternModel([], default="42"), disallow_transfer_to_parent=True)
    model = ScriptedModel([{"call": "start_many"}, "begun", {"call": "wait"}, "I see"])
    with local(LlmAgent(name="root", model=model, tools=[start_many, gate.tool()], sub_agents=[helper])) as rt:
        ask(rt)
        assert {run.status for run in rt.background.wait("ada", "s1", timeout_s=30)} == {"done"}
        turn = rt.run(user_id="ada", session_id="s1", message="well?")
        gate.wait_for_caller()
        second = rt.run(user_id="ada", session_id="s1", message="more", run_config=RunConfig(on_concurrent_turn="steer"))
        assert second.steered is not None
        gate.open()
        assert turn.result().text == "I see"
        assert len(told(rt)) >= 100
