"""Forks: a new session that has all of another one up to the end of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from actors import LlmAgent, Part, ToolContext, tool
from actors.errors import InvocationNotFoundError, SessionBusyError, SessionExistsError, TurnStateError
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support.agents.web_agents import ask_manager
from tests.support.runtimes import Deploy, run_turn, stored


@tool
async def note(text: str, tool_context: ToolContext) -> str:
    """Note a text."""
    tool_context.state["notes"] = [*tool_context.state.get("notes", []), text]
    tool_context.state["user:last"] = text
    version = await tool_context.save_artifact("note.txt", Part(text=text))
    return f"noted as {version}"


def root() -> LlmAgent:
    model = PatternModel(
        [
            ("tool:", "done"),
            ("ask", {"call": "ask_manager", "args": {"amount": 1}}),
            *((name, {"call": "note", "args": {"text": name}}) for name in ("first", "second", "third")),
        ],
        default="hello",
    )
    return LlmAgent(name="root", model=model, tools=[note, ask_manager])


def said(rt: Runtime, session: str) -> list[tuple[int, str, str]]:
    return [(event.seq, event.author, event.text) for event in stored(rt, session)]


def state(rt: Runtime, session: str) -> dict[str, Any]:
    found = rt.sessions.get("ada", session, num_recent_events=0)
    assert found is not None
    return dict(found.state)


def test_a_fork_has_all_up_to_the_end_of_a_turn_and_goes_its_own_way(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        first = run_turn(rt, "first")[0].invocation_id
        second = run_turn(rt, "second")[0].invocation_id
        run_turn(rt, "third")
        before = said(rt, "s1")
        used = rt.usage("ada").total
        fork = rt.sessions.fork("ada", "s1", second, "other")
        assert (fork.id, fork.user_id, fork.state["notes"]) == ("other", "ada", ["first", "second"])
        # What all sessions of the user share is as it is now.
        assert fork.state["user:last"] == "third"
        assert said(rt, "other") == before[:8]
        assert [(turn.invocation_id, turn.state) for turn in rt.turns.list("ada", "other")] == [
            (second, "finished"),
            (first, "finished"),
        ]
        assert rt.artifacts.list_versions("ada", "other", "note.txt") == [0, 1]
        newest = rt.artifacts.load("ada", "other", "note.txt")
        assert newest is not None
        assert newest.text == "second"
        # What was used counts once.
        assert rt.usage("ada").total == used
        run_turn(rt, "third", "other")
        run_turn(rt, "hi", "other")
        assert state(rt, "other")["notes"] == ["first", "second", "third"]
        assert said(rt, "s1") == before
        # A rewind of the fork takes back what was before the fork, too.
        rt.sessions.rewind("ada", "other", second)
        assert state(rt, "other")["notes"] == ["first"]
        rt.sessions.rewind("ada", "other", first)
        assert "notes" not in state(rt, "other")
        assert state(rt, "s1")["notes"] == ["first", "second", "third"]
        chosen = rt.sessions.fork("ada", "s1", first)
        assert chosen.id not in ("s1", "other")
        assert chosen.state["notes"] == ["first"]


def test_a_paused_turn_waits_in_its_fork_and_each_is_answered_by_itself(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        turn = run_turn(rt, "ask")[0].invocation_id
        rt.sessions.fork("ada", "s1", turn, "other")
        assert {call.session_id for call in rt.turns.pending("ada")} == {"s1", "other"}
        [call] = rt.turns.pending("ada", "other")
        list(rt.answer({call.call_id: {"ok": False}}, user_id="ada", session_id="other"))
        assert [turn.state for turn in rt.turns.list("ada", "other")] == ["finished"]
        assert [turn.state for turn in rt.turns.list("ada", "s1")] == ["paused"]
        [call] = rt.turns.pending("ada")
        list(rt.answer({call.call_id: {"ok": True}}, user_id="ada", session_id="s1"))
        given = [response.response for event in stored(rt, "other") for response in event.function_responses()]
        assert given == [{"ok": False}]


def test_a_fork_of_a_turn_that_was_cancelled_while_it_was_paused_has_a_response_to_each_call(deploy: Deploy) -> None:
    asks: Any = {"parts": [{"call": "ask_manager", "args": {"amount": amount}} for amount in (1, 2)]}
    model = ScriptedModel([asks, "hello"])
    with deploy(LlmAgent(name="root", model=model, tools=[ask_manager])) as rt:
        turn = run_turn(rt, "ask")[0].invocation_id
        rt.attach(user_id="ada", session_id="s1", invocation_id=turn).cancel()
        [info] = rt.turns.list("ada", "s1")
        assert (info.state, info.last_seq) == ("cancelled", stored(rt, "s1")[-1].seq)
        rt.sessions.fork("ada", "s1", turn, "other")
        assert said(rt, "other") == said(rt, "s1")
        assert run_turn(rt, "hi", "other")[-1].text == "hello"
        parts = [part for content in model.requests[-1].contents for part in content.parts]
        calls = [part.function_call.id for part in parts if part.function_call is not None]
        given = {
            part.function_response.id: part.function_response.response for part in parts if part.function_response is not None
        }
        assert given == {call_id: {"error": "cancelled"} for call_id in calls}


def test_what_cannot_be_forked_is_refused_and_leaves_nothing(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        paused = run_turn(rt, "ask")[0].invocation_id
        between = run_turn(rt, "first")[0].invocation_id
        with pytest.raises(SessionExistsError):
            rt.sessions.fork("ada", "s1", between, "s1")
        with pytest.raises(InvocationNotFoundError):
            rt.sessions.fork("ada", "s1", "another", "other")
        [call] = rt.turns.pending("ada")
        list(rt.answer({call.call_id: {"ok": True}}, user_id="ada", session_id="s1"))
        with pytest.raises(TurnStateError, match=rf"turn '{between}' has ended while turn '{paused}' was paused"):
            rt.sessions.fork("ada", "s1", between, "other")
        assert rt.sessions.get("ada", "other") is None
        assert rt.sessions.fork("ada", "s1", paused, "other").state["notes"] == ["first"]


def test_a_session_in_which_a_turn_runs_is_not_forked(local: Deploy, tmp_path: Any) -> None:
    from tests.support.models.waiting_model import GatedModel

    model = GatedModel(tmp_path, "late")
    with local(LlmAgent(name="root", model=model)) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="hi")
        model.wait_until_called()
        with pytest.raises(SessionBusyError):
            rt.sessions.fork("ada", "s1", turn.invocation_id)
        model.release()
        assert turn.result().text == "late"
        assert rt.sessions.fork("ada", "s1", turn.invocation_id, "other").id == "other"
