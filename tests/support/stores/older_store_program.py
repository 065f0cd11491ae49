"""A program that wrote the store of an older commit, and reads what such a store holds.

It runs with the packages of any commit. This is how `tests/services/stores_of_older_versions` was made:

    mkdir ../older && git archive f5a1d9d actors runtime | tar -x -C ../older
    PYTHONPATH=../older:. python tests/support/stores/older_store_program.py ../older FOLDER

It writes the session store, the memory store and the artifacts into FOLDER, and beside them, as `expected.json`, everything that
the older commit itself reads there.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner

import actors
from actors import Blob, Content, Event, FileData, FunctionResponse, Part, RunConfig
from actors.errors import RaygroveError
from runtime import Runtime
from tests.support.stores.older_store_agents import APP, STOPS_AT, errand, runtime

QUERIES = ("order", "paris refund", "nothing of the kind")
"""What is searched for in memory."""


class Writer:
    """Writes the store: every method leaves something of its own in it."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt

    def say(self, session_id: str, message: Any, user_id: str = "ada", **options: Any) -> None:
        """Run a turn to its end, whichever that is."""
        with suppress(RaygroveError):
            self._rt.run(user_id=user_id, session_id=session_id, message=message, **options).result()

    def conversations(self) -> None:
        """Turns that finish: state, artifacts, thoughts, usage, an agent as a tool; and a rewound session."""
        picture = Content(role="user", parts=[Part(text="look"), Part(inline_data=Blob(data=b"\x89PNG", mime_type="image/png"))])
        self._rt.sessions.create("ada", "talk", {"mood_of_session": "calm", "user:name": "Ada", "app:motto": "be kind"})
        for message in ("hello", "order 42", "count", "number please"):
            self.say("talk", message)
        self.say("talk", picture, run_config=RunConfig(save_input_blobs_as_artifacts=True, custom_metadata={"from": "phone"}))
        self.say("talk", "hello again", invocation_id="e-given", state_delta={"last": None, "topic": ["a", {"b": 1.5}]})
        self.say("talk", "order 43", user_id="bob")
        for message in ("order 1", "order 2"):
            self.say("rewound", message, invocation_id=f"e-{message}")
        self._rt.sessions.rewind("ada", "rewound", "e-order 2")
        self.say("rewound", "hello")
        self._rt.sessions.create("ada", "imported")
        parts = [Part(text="a refund in Paris"), Part(file_data=FileData(file_uri="gs://bucket/file", mime_type="text/plain"))]
        event = Event(author="importer", branch="a.b", content=Content(role="model", parts=parts), finish_reason="STOP")
        self._rt.sessions.append_event("ada", "imported", event)
        for user_id, session_id in (("ada", "talk"), ("ada", "imported"), ("bob", "talk")):
            self._rt.memory.add_session(user_id, session_id)

    def failures(self) -> None:
        """Turns that fail, each with an error of its own; supervised failures; cancelled turns."""
        names = ("agent", "store", "model", "template", "schema", "target", "tool", "flow")
        for name in names:
            self.say("errors", f"to {name}_breaker")
        self.say("errors", "to limit_breaker", run_config=RunConfig(max_llm_calls=2))
        self.say("errors", "to refunds", run_config=RunConfig(max_transfers=0))
        self.say("errors", "break plugin")
        for name in ("restarts", "skips", "gives_up", "until_escalated", "reviewer"):
            self.say("supervised", f"to {name}")

    def cancelled(self) -> None:
        """Turns that are cancelled while they hold, by their driver and by their timeout."""
        turn = self._rt.run(user_id="ada", session_id="cancelled", message="to keeper")
        self._held()
        turn.cancel()
        with suppress(RaygroveError):
            turn.result()
        late = self._rt.run(user_id="ada", session_id="too_late", message="to keeper", run_config=RunConfig(timeout=0.5))
        self._held()
        with suppress(RaygroveError):
            late.result()

    def pauses(self) -> None:
        """Turns that wait for an answer: in an LLM agent, a loop, a parallel, a confirmation, a flow."""
        config = RunConfig(max_llm_calls=50, max_transfers=7, streaming="sse", on_concurrent_turn="reject")
        self.say("paused", "to refunds", run_config=config, state_delta={"temp:mood": "curious"})
        for name in ("cashier", "rounds", "sides", "report"):
            self.say(f"paused_{name}", f"to {name}")
        self._rt.run_flow(errand(), user_id="ada", session_id="paused_errand", message="please").result()

    def answers(self) -> None:
        """Turns that were paused and are not any more, and calls that may be answered though their turns have finished."""
        self.say("answered", "to rounds")
        for _ in range(2):
            self.say("answered", answer(self._rt, "answered", "loop_asker"))
        paused = self._rt.run(user_id="ada", session_id="given_up", message="to sides", invocation_id="e-given-up")
        paused.result()
        self._rt.attach(user_id="ada", session_id="given_up", invocation_id="e-given-up").cancel()
        for name in ("clerk", "works"):
            self.say(name, f"to {name}")

    def stops(self) -> list[Any]:
        """Begin turns that hold. Dropping what is returned would cancel them."""
        running = []
        for name in ("keeper", "held_rounds", "held_sides", "held_restarts", "held_again", "held_skips", "digging"):
            turn = self._rt.run(
                user_id="ada",
                session_id=f"stopped_{name}",
                message=f"to {name}",
                invocation_id=f"e-{name}",
                state_delta={"temp:mood": "stopped"},
                run_config=RunConfig(max_llm_calls=60),
            )
            events = iter(turn)
            self._held()
            beside = {"held_sides": "quick", "held_skips": "held_skips"}.get(name)
            while beside is not None and next(events).author != beside:
                pass
            running.append(events)
        return running

    def _held(self) -> None:
        """Wait until an agent holds."""
        Path(os.environ[STOPS_AT]).read_text()


def answer(rt: Runtime, session_id: str, *authors: str) -> Content:
    """A message that answers the newest call of each of the authors."""
    session = rt.sessions.get("ada", session_id)
    assert session is not None
    calls = {event.author: found for event in session.events for found in event.function_calls()}
    given = {"confirmed": True, "allowed": True}
    parts = [FunctionResponse(id=calls[author].id, name=calls[author].name, response=given) for author in authors]
    return Content(role="user", parts=[Part(function_response=each) for each in parts])


def write(folder: Path) -> None:
    """Write the store, and end this process while turns run."""
    os.environ[STOPS_AT] = str(folder / "pipe")
    os.mkfifo(folder / "pipe")
    rt = runtime(folder)
    rt.start()
    writer = Writer(rt)
    writer.conversations()
    writer.failures()
    writer.cancelled()
    writer.pauses()
    writer.answers()
    _running = writer.stops()
    os._exit(0)


def read(folder: Path) -> dict[str, Any]:
    """Everything in the stores, as this commit reads it; turn records as plain data."""
    with runtime(folder) as rt:
        found = [rt.sessions.get(each.user_id, each.id) for each in rt.sessions.list()]
        memory = {query: msgspec.to_builtins(rt.memory.search("ada", query)) for query in QUERIES}
        artifacts = {
            filename: rt.artifacts.list_versions("ada", "talk", filename) for filename in rt.artifacts.list_keys("ada", "talk")
        }
    sessions = {
        f"{each.user_id}/{each.id}": {"state": each.state, "events": [json.loads(event.to_json()) for event in each.events]}
        for each in found
        if each is not None
    }
    return {
        "sessions": sessions,
        "turns": _turns(folder),
        "memory": memory,
        "artifacts": artifacts,
        "shown": _shown(folder, found),
    }


def _turns(folder: Path) -> list[dict[str, Any]]:
    columns = "user, session, invocation_id, status, epoch, first_seq, opened_seq, agent, outcome, temp"
    with closing(sqlite3.connect(folder / "sessions.db")) as connection:
        query = f"SELECT {columns} FROM raygrove_turns JOIN raygrove_sessions USING (sid) ORDER BY user, session, first_seq"
        rows = connection.execute(query).fetchall()
    records = [dict(zip(columns.split(", "), row, strict=True)) for row in rows]
    for record in records:
        for name in ("outcome", "temp"):
            record[name] = msgspec.msgpack.decode(record[name]) if record[name] else None
    return records


def _shown(folder: Path, found: list[Any]) -> dict[str, list[str]]:
    """What `raygrove sessions show` prints of each session."""
    return {f"{each.user_id}/{each.id}": show(folder, each.user_id, each.id) for each in found}


def show(folder: Path, user_id: str, session_id: str) -> list[str]:
    """The lines that the command prints of a session, without the names of columns, which older versions do not print."""
    command = import_module("runtime.frontends.console.cli" if find_spec("runtime.frontends") else "runtime.cli")
    arguments = ["sessions", "show", APP, session_id, "--user", user_id, "--store", f"sqlite:///{folder}/sessions.db"]
    printed = CliRunner().invoke(command.app, arguments, catch_exceptions=False).output.splitlines()
    return printed[1:] if printed[:1] == ["seq\tauthor\tkind\ttext"] else printed


def spread(value: Any, levels: int = 4) -> str:
    """JSON with a line for each entry, down to so many levels."""
    if not levels or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[\n" + ",\n".join(spread(each, levels - 1) for each in value) + "\n]"
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {spread(each, levels - 1)}" for key, each in value.items()) + "\n}"


def shrink(path: Path) -> None:
    """Make the file as small as it can be."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA page_size=512")
        connection.execute("VACUUM")


if __name__ == "__main__":
    checkout, to, *phase = sys.argv[1:]
    assert Path(actors.__file__).is_relative_to(Path(checkout).absolute()), f"these are the actors of {actors.__file__}"
    if phase:
        write(Path(to))
    subprocess.run([sys.executable, *sys.argv, "write"], check=True)
    Path(to, "expected.json").write_text(spread(read(Path(to))) + "\n")
    Path(to, "pipe").unlink()
    for name in ("sessions.db", "sessions.memory.db"):
        shrink(Path(to, name))
