"""Runtimes for tests, and short ways to use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import ray

from actors import BaseAgent, Blob, Event, Flow
from runtime import Runtime
from runtime.settings import Settings


class Deploy:
    """Creates the Runtimes of one test with the same engine and stores, so that a second one finds what the first has left."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.engine = engine
        self.folder = folder

    def __call__(self, root: BaseAgent | Flow | None, **options: Any) -> Runtime:
        settings: dict[str, Any] = {
            "app_name": "test",
            "engine": self.engine,
            "session_store": f"sqlite:///{self.folder}/sessions.db",
            "artifact_store": f"file://{self.folder}/artifacts",
        }
        if not isinstance({**settings, **options}["session_store"], str | list):
            # Beside a store that is an object there is no place of the test's own.
            settings["memory_store"] = f"sqlite:///{self.folder}/memory.db"
        return Runtime(root, **{**settings, **options})


def ray_actor_of(rt: Runtime, agent: str) -> Any:
    """The Ray actor that hosts an agent."""
    return ray.get_actor(rt.statistics().agents[agent].actor, namespace=Settings().namespace)


def author_texts(events: list[Event]) -> list[tuple[str, str]]:
    """Author and text of each complete event."""
    return [(event.author, event.text) for event in events if not event.partial]


def run_turn(rt: Runtime, message: Any, session_id: str = "s1", user_id: str = "ada", **options: Any) -> list[Event]:
    """Run a turn to its end and return its events."""
    return cast(list[Event], list(rt.run(user_id=user_id, session_id=session_id, message=message, **options)))


def stored(rt: Runtime, session_id: str = "s1", user_id: str = "ada") -> list[Event]:
    """All events of a session, as its log has them; none if there is no such session yet."""
    session = rt.sessions.get(user_id, session_id)
    return list(session.events) if session is not None else []


def stored_state(rt: Runtime, session_id: str = "s1", user_id: str = "ada") -> dict[str, Any]:
    """The state of a session, which has to be there."""
    session = rt.sessions.get(user_id, session_id)
    assert session is not None
    return dict(session.state)


def saved_blob(rt: Runtime, name: str) -> Blob:
    """The data of an artifact of the session, which has to be there."""
    part = rt.artifacts.load("ada", "s1", name)
    assert part is not None
    assert part.inline_data is not None
    return part.inline_data
