"""An earlier message is replaced, and the conversation goes on from there; a rewind brings artifacts back (semantics.md 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from actors import LlmAgent, Part, ToolContext
from actors.errors import ArtifactError, InvocationNotFoundError, SessionBusyError
from actors.messages.session import SessionKey
from actors.testing import PatternModel, ScriptedModel
from runtime.driver import history
from runtime.driver.runtime import Runtime
from tests.support.agents.conversation_tools import Gate
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, stored, stored_state
from tests.support.vectors.vector_agents import FailingArtifactStore


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


async def save(name: str, text: str, tool_context: ToolContext) -> dict[str, int]:
    """Save a text."""
    return {"version": await tool_context.save_artifact(name, Part(text=text))}


def saver() -> LlmAgent:
    """Saves `name text` of each message."""

    def call(message: str) -> dict[str, object]:
        name, _, text = message.partition(" ")
        return {"call": "save", "args": {"name": name, "text": text}}

    words = ("a.txt one", "a.txt two", "a.txt three", "b.txt new", "user:c.txt mine", "b.txt again")
    model = PatternModel([("tool:save", "saved"), *((word, call(word)) for word in words)])
    return LlmAgent(name="root", model=model, tools=[save])


def artifacts(rt: Runtime, session_id: str = "s1") -> dict[str, str | None]:
    """What a reader finds under each name."""
    found = {name: rt.artifacts.load("ada", session_id, name) for name in rt.artifacts.list_keys("ada", session_id)}
    return {name: part.text for name, part in found.items() if part is not None}


def test_a_rewind_restores_what_was_changed_deletes_what_is_new_and_leaves_what_the_user_shares(deploy: Deploy) -> None:
    with deploy(saver()) as rt:
        run_turn(rt, "a.txt one", invocation_id="e-1")
        for number, message in enumerate(("a.txt two", "b.txt new", "user:c.txt mine", "a.txt three", "b.txt again"), 2):
            run_turn(rt, message, invocation_id=f"e-{number}")
        rt.sessions.rewind("ada", "s1", "e-6")
        assert artifacts(rt) == {"a.txt": "three", "b.txt": "new", "user:c.txt": "mine"}
        rt.sessions.rewind("ada", "s1", "e-2")
        assert artifacts(rt) == {"a.txt": "one", "user:c.txt": "mine"}
        # What was rewound is found as it was saved.
        assert [rt.artifacts.load("ada", "s1", "a.txt", version) for version in (1, 2)] == [Part(text="two"), Part(text="three")]
        run_turn(rt, "b.txt new", invocation_id="e-7")
        run_turn(rt, "a.txt two", invocation_id="e-8")
        fork = rt.sessions.fork("ada", "s1", "e-8").id
        rt.sessions.rewind("ada", "s1", "e-7")
        assert artifacts(rt) == {"a.txt": "one", "user:c.txt": "mine"}
        assert artifacts(rt, fork) == {"a.txt": "two", "b.txt": "new", "user:c.txt": "mine"}


def test_what_the_program_has_saved_before_comes_back(local: Deploy) -> None:
    with local(saver()) as rt:
        rt.sessions.create("ada", "s1")
        rt.artifacts.save("ada", "s1", "a.txt", Part(text="the program's"))
        run_turn(rt, "a.txt one", invocation_id="e-1")
        run_turn(rt, "a.txt two")
        rt.sessions.rewind("ada", "s1", "e-1")
        assert artifacts(rt) == {"a.txt": "the program's"}


class FullStore(FailingArtifactStore):
    """An artifact store that takes two saves."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        """Save it, as long as there is room."""
        if len(self.parts) == 2:
            raise OSError("disk full")
        self.parts.append(part)
        return len(self.parts) - 1

    def load(self, key: SessionKey, filename: str, version: int | None = None) -> Part | None:
        """The part of a version."""
        return self.parts[-1 if version is None else version]


def test_a_store_that_fails_leaves_the_session_as_it_was_before_the_turn(local: Deploy) -> None:
    with local(saver(), artifact_store=FullStore()) as rt:
        run_turn(rt, "a.txt one")
        before = rt.sessions.get("ada", "s1")
        run_turn(rt, "a.txt two", invocation_id="e-2")
        with pytest.raises(ArtifactError, match="disk full"):
            rt.sessions.rewind("ada", "s1", "e-2")
        after = rt.sessions.get("ada", "s1")
        assert before is not None
        assert after is not None
        assert list(after.events)[:-1] == list(before.events)
