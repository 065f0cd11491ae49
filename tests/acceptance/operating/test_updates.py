"""A deployment gets another tree while it runs: turns go on with the one that they began with, and new ones get the new one."""

from __future__ import annotations

from typing import Any

import pytest

from actors import BaseAgent, CallbackContext, LlmAgent, Plugin, tool
from actors.errors import RequestError, UpdateRefusedError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.agents.conversation_tools import Gate
from tests.support.polling import until
from tests.support.runtimes import Deploy, stored_state


@tool(long_running=True)
def ask_manager() -> None:
    """Ask the manager."""


def root(gate: Gate, says: str = "old", *children: BaseAgent) -> LlmAgent:
    """Waits at the gate, asks, hands over, or answers, as it is told; all that it says at the end is `says`."""
    model = PatternModel(
        [
            ("wait", {"call": "wait"}),
            ("ask", {"call": "ask_manager"}),
            ("helper", {"transfer": "helper"}),
            ("tool:", says),
        ],
        default=says,
    )
    return LlmAgent(name="root", model=model, tools=[gate.tool(), ask_manager], sub_agents=children)


def helper(says: str = "helper") -> LlmAgent:
    return LlmAgent(
        name="helper",
        model=PatternModel([("ask", {"call": "ask_manager"})], default=says),
        tools=[ask_manager],
        description="helps",
    )


def said(rt: Runtime, message: str, session: str = "s1", **options: Any) -> str:
    return rt.run(user_id="ada", session_id=session, message=message, **options).result().text


def version_of(rt: Runtime, invocation_id: str, session: str = "s1") -> str:
    return rt.turns.get("ada", session, invocation_id).version


def test_new_turns_get_the_new_tree_and_a_running_one_ends_on_the_old(deploy: Deploy, gate: Gate) -> None:
    with deploy(root(gate, "old", helper())) as rt:
        assert said(rt, "hi", "before", invocation_id="before") == "old"
        running = rt.run(user_id="ada", session_id="s1", message="wait", invocation_id="running")
        gate.wait_for_caller()
        report = rt.update(root(gate, "new", helper()))
        assert (report.difference.changed, report.difference.added, report.difference.removed) == (["root"], [], [])
        assert said(rt, "hi", "s2", invocation_id="after") == "new"
        gate.open()
        assert running.result().text == "old"
        assert said(rt, "hi", "before", invocation_id="again") == "new"
        assert [version_of(rt, "before", "before"), version_of(rt, "running")] == [report.before] * 2
        assert [version_of(rt, "after", "s2"), version_of(rt, "again", "before")] == [report.version] * 2
        assert [(each.id, each.state) for each in rt.versions()] == [(report.version, "current"), (report.before, "previous")]


def test_agents_are_added_and_removed(deploy: Deploy, gate: Gate) -> None:
    with deploy(root(gate, "old", helper())) as rt:
        assert said(rt, "helper") == "helper"
        writer = LlmAgent(name="writer", model=PatternModel([], default="writer"))
        report = rt.update(root(gate, "old", writer))
        assert (report.difference.added, report.difference.removed) == (["writer"], ["helper"])
        # The agent that spoke last is gone, so the root is told.
        assert said(rt, "hi") == "old"
        assert [agent.name for agent in rt.tree()] == ["root", "writer"]


def test_a_paused_turn_goes_on_with_the_tree_that_it_began_with(deploy: Deploy, gate: Gate) -> None:
    with deploy(root(gate, "old")) as rt:
        rt.run(user_id="ada", session_id="s1", message="ask", invocation_id="paused").result()
        reports = [rt.update(root(gate, says)) for says in ("new", "newer", "newest")]
        (call,) = rt.pending(user_id="ada")
        assert rt.answer(call, {"yes": True}).result().text == "old"
        assert version_of(rt, "paused") == reports[0].before
        assert said(rt, "hi", "s2") == "newest"
        # It is over, so its tree is kept no more.
        report = rt.update(root(gate, "last"))
        assert {each.id for each in rt.versions()} == {report.version, report.before}


def test_a_task_of_the_tree_before_gets_its_words(local: Deploy, gate: Gate) -> None:
    model = PatternModel([("Rome", {"call": "finish_task", "args": {"result": "Rome"}})], default="Where to?")
    with local(LlmAgent(name="root", model=model, mode="task")) as rt:
        assert said(rt, "plan a trip", invocation_id="trip") == "Where to?"
        rt.update(root(gate, "new"))
        said(rt, "Rome")
        assert [(turn.invocation_id, turn.state) for turn in rt.turns.list()] == [("trip", "finished")]


def test_a_call_of_an_agent_that_would_vanish_refuses_the_update_unless_it_is_forced(deploy: Deploy, gate: Gate) -> None:
    with deploy(root(gate, "old", helper())) as rt:
        said(rt, "helper")
        said(rt, "ask")
        (call,) = rt.pending(user_id="ada")
        assert call.agent == "helper"
        with pytest.raises(UpdateRefusedError, match=f"{call.call_id!r} of ask_manager of agent 'helper'"):
            rt.update(root(gate, "new"))
        assert said(rt, "hi", "s2") == "old"
        report = rt.update(root(gate, "new"), force=True)
        assert report.answered == [call.call_id]
        until(lambda: rt.turns.counts().running == 0)
        assert not rt.pending(user_id="ada")
        assert said(rt, "hi") == "new"


def test_a_dry_run_tells_what_would_change_and_the_same_tree_is_no_update(deploy: Deploy, gate: Gate) -> None:
    with deploy(root(gate, "old", helper())) as rt:
        report = rt.update(root(gate, "old", helper("other")), dry_run=True)
        assert report.dry_run
        assert report.difference.changed == ["helper"]
        assert said(rt, "helper") == "helper"
        same = rt.update(root(gate, "old", helper()))
        assert (bool(same.difference), same.version) == (False, same.before)
        assert len(rt.versions()) == 1


def test_a_rollback_leads_back_and_forth(deploy: Deploy, gate: Gate) -> None:
    with deploy(root(gate, "old")) as rt:
        with pytest.raises(RequestError, match="no version to roll back to"):
            rt.rollback()
        first = rt.update(root(gate, "new"))
        back = rt.rollback()
        assert (back.version, back.before) == (first.before, first.version)
        assert said(rt, "hi") == "old"
        rt.rollback()
        assert said(rt, "hi") == "new"


def test_a_part_of_the_new_sessions_gets_the_new_tree(deploy: Deploy, gate: Gate) -> None:
    with deploy(root(gate, "old")) as rt:
        said(rt, "hi", "older")
        report = rt.update(root(gate, "new"), share=0.5)
        sessions = [f"s{number}" for number in range(24)]
        first = [said(rt, "hi", session) for session in sessions]
        assert set(first) == {"old", "new"}
        assert said(rt, "hi", "older") == "old"
        # A session stays where it is.
        assert [said(rt, "again", session) for session in sessions] == first
        assert {each.id: each.state for each in rt.versions()} == {report.version: "shared", report.before: "current"}
        rt.rollback()
        assert {said(rt, "more", session) for session in sessions} == {"old"}


class Hooks(Plugin):
    """Adds its name to the state."""

    def __init__(self, name: str) -> None:
        self.name = name

    def before_agent_callback(self, context: CallbackContext) -> None:
        context.state["by"] = self.name


def test_plugins_are_taken_over_or_replaced(deploy: Deploy, gate: Gate) -> None:
    with deploy(root(gate, "old"), plugins=[Hooks("first")]) as rt:
        rt.update(root(gate, "new"))
        said(rt, "hi")
        assert stored_state(rt)["by"] == "first"
        rt.update(root(gate, "new"), plugins=[Hooks("second")])
        said(rt, "hi")
        assert stored_state(rt)["by"] == "second"
