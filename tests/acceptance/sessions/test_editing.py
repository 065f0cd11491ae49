"""An earlier message is replaced, and the conversation goes on from there (semantics.md 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from actors import LlmAgent
from actors.errors import InvocationNotFoundError, SessionBusyError
from actors.testing import PatternModel, ScriptedModel
from runtime.driver import history
from runtime.driver.runtime import Runtime
from tests.support.agents.conversation_tools import Gate
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.polling import until
from tests.support.runtimes import Deploy, stored, stored_state


def echo() -> LlmAgent:
    """Says what it was asked last."""
    return LlmAgent(name="root", model=PatternModel([], default="heard"))


def say(rt: Runtime, *messages: str) -> list[str]:
    """Turns, one after the other; their ids."""
    return [rt.run(user_id="ada", session_id="s1", message=each).result().invocation_id for each in messages]


def texts(rt: Runtime, session: str = "s1") -> list[str]:
    return [event.text for event in stored(rt, session) if event.text and event.author == "user"]


def test_the_message_takes_the_place_of_the_turn_and_of_all_after_it(deploy: Deploy) -> None:
    with deploy(echo()) as rt:
        _, second, _ = say(rt, "a", "b", "c")
        turn = rt.turns.edit("ada", "s1", second, "B")
        assert turn.result().text == "heard"
        assert texts(rt) == ["a", "B"]
        assert rt.turns.list()[0].invocation_id == turn.invocation_id
        assert rt.schedules.list(user_id="ada") == []
        say(rt, "d")
        assert texts(rt) == ["a", "B", "d"]


def test_with_keep_the_new_turn_runs_in_a_fork(deploy: Deploy) -> None:
    with deploy(echo()) as rt:
        first, second = say(rt, "a", "b")
        turn = rt.turns.edit("ada", "s1", second, "B", keep=True)
        turn.result()
        assert texts(rt) == ["a", "b"]
        assert texts(rt, turn.session_id) == ["a", "B"]
        of_first = rt.turns.edit("ada", "s1", first, "A", keep=True)
        of_first.result()
        assert texts(rt, of_first.session_id) == ["A"]


def test_the_state_is_as_it_was(deploy: Deploy) -> None:
    with deploy(echo()) as rt:
        rt.sessions.create("ada", "s1", {"mood": "calm"})
        turn = rt.run(user_id="ada", session_id="s1", message="a", state_delta={"mood": "wild"}).result()
        rt.turns.edit("ada", "s1", turn.invocation_id, "A").result()
        assert stored_state(rt) == {"mood": "calm"}


def test_what_cannot_be_edited_leaves_all_as_it_is(deploy: Deploy, gate: Gate) -> None:
    model = ScriptedModel(["one", {"call": "wait"}, "two"])
    with deploy(LlmAgent(name="root", model=model, tools=[gate.tool()])) as rt:
        [first] = say(rt, "a")
        with pytest.raises(InvocationNotFoundError):
            rt.turns.edit("ada", "s1", "e-none", "A").result()
        running = rt.run(user_id="ada", session_id="s1", message="b")
        gate.wait_for_caller()
        with pytest.raises(SessionBusyError):
            rt.turns.edit("ada", "s1", first, "A").result()
        gate.open()
        assert running.result().text == "two"
        assert texts(rt) == ["a", "b"]


def edited(loss: Loss | None) -> LossyEngine:
    """An edit during which an actor is lost."""
    with quick_folder() as folder:
        rt, engine = lossy_runtime(echo(), Path(folder), [loss] if loss is not None else [])
        engine.watches = True
        with rt:
            _, second = say(rt, "a", "b")
            assert rt.turns.edit("ada", "s1", second, "B").result().text == "heard"
            assert texts(rt) == ["a", "B"]
            assert rt.schedules.list() == []
    return engine


@pytest.mark.parametrize("who", get_args(Victim))
def test_it_is_done_once_whichever_actor_is_lost_at_whichever_message(who: Victim) -> None:
    for at in range(edited(None).messages):
        for before in (True, False):
            edited(Loss(at, who, before))


@pytest.mark.parametrize("keep", [False, True])
def test_the_turn_begins_by_itself_when_the_program_is_lost(local: Deploy, monkeypatch: pytest.MonkeyPatch, keep: bool) -> None:
    step = "fork_session" if keep else "rewind"
    done = getattr(history, step)

    async def lost_afterwards(*asked: Any) -> None:
        await done(*asked)
        raise RuntimeError("the program is lost")

    monkeypatch.setattr(history, step, lost_afterwards)
    monkeypatch.setattr(history, "BEGINS_S", 0)
    with local(echo()) as rt:
        _, second = say(rt, "a", "b")
        with pytest.raises(RuntimeError, match="lost"):
            rt.turns.edit("ada", "s1", second, "B", keep=keep).result()
        # The edited turn may have begun.
        assert texts(rt) in ([["a", "b"]] if keep else [["a"], ["a", "B"]])
        changed = next(each.id for each in rt.sessions.list(user_id="ada") if each.id != "s1") if keep else "s1"
        until(lambda: stored(rt, changed)[-1].text == "heard" and texts(rt, changed) == ["a", "B"])
