"""A rewind brings the artifacts of a session back (semantics.md section 2)."""

from __future__ import annotations

import pytest

from actors import LlmAgent, Part, ToolContext
from actors.errors import ArtifactError
from actors.messages.session import SessionKey
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.runtimes import Deploy, run_turn
from tests.support.vectors.vector_agents import FailingArtifactStore


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


def texts(rt: Runtime, session_id: str = "s1") -> dict[str, str | None]:
    """What a reader finds under each name."""
    found = {name: rt.artifacts.load("ada", session_id, name) for name in rt.artifacts.list_keys("ada", session_id)}
    return {name: part.text for name, part in found.items() if part is not None}


def test_a_rewind_restores_what_was_changed_deletes_what_is_new_and_leaves_what_the_user_shares(deploy: Deploy) -> None:
    with deploy(saver()) as rt:
        run_turn(rt, "a.txt one", invocation_id="e-1")
        for number, message in enumerate(("a.txt two", "b.txt new", "user:c.txt mine", "a.txt three", "b.txt again"), 2):
            run_turn(rt, message, invocation_id=f"e-{number}")
        rt.sessions.rewind("ada", "s1", "e-6")
        assert texts(rt) == {"a.txt": "three", "b.txt": "new", "user:c.txt": "mine"}
        rt.sessions.rewind("ada", "s1", "e-2")
        assert texts(rt) == {"a.txt": "one", "user:c.txt": "mine"}
        # What was rewound is found as it was saved.
        assert [rt.artifacts.load("ada", "s1", "a.txt", version) for version in (1, 2)] == [Part(text="two"), Part(text="three")]
        run_turn(rt, "b.txt new", invocation_id="e-7")
        run_turn(rt, "a.txt two", invocation_id="e-8")
        fork = rt.sessions.fork("ada", "s1", "e-8").id
        rt.sessions.rewind("ada", "s1", "e-7")
        assert texts(rt) == {"a.txt": "one", "user:c.txt": "mine"}
        assert texts(rt, fork) == {"a.txt": "two", "b.txt": "new", "user:c.txt": "mine"}


def test_what_the_program_has_saved_before_comes_back(local: Deploy) -> None:
    with local(saver()) as rt:
        rt.sessions.create("ada", "s1")
        rt.artifacts.save("ada", "s1", "a.txt", Part(text="the program's"))
        run_turn(rt, "a.txt one", invocation_id="e-1")
        run_turn(rt, "a.txt two")
        rt.sessions.rewind("ada", "s1", "e-1")
        assert texts(rt) == {"a.txt": "the program's"}


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
