"""Any message, response or result leads to an answer or a typed error: never to a hang, a lost actor or a broken log.

The cases are the same in every run. They share one Runtime and its sessions, so that each case meets what earlier ones left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors import Event, Part, RunConfig
from actors.behaviours.lifecycle import FAILED
from actors.errors import RaygroveError
from actors.messages.codec import decode, encode
from runtime import Runtime, Settings
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support import fuzz_values as fuzzing
from tests.support.agents import hostile_code as hostile
from tests.support.fuzz_values import PlannedModel
from tests.support.tries import tries

HANGS_S = 20.0
"""A turn that takes so long is one that never ends; the others take some milliseconds."""


def cases(number: int) -> settings:
    """So many, the same ones each time."""
    return settings(max_examples=tries(number), derandomize=True, database=None, suppress_health_check=list(HealthCheck))


class ErrorLog(logging.Handler):
    """Keeps logged errors: defects caught at an actor's border, and failed tasks that were never awaited.

    Failures of users' code are logged too, and are no defects.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg != FAILED:
            self.told.append(self.format(record))


class FuzzedRuntime:
    """One Runtime with a planned model, and the invariants that hold after every case."""

    def __init__(self, folder: Path) -> None:
        self.puppet = PlannedModel()
        self.store = SqlSessionStore("sqlite://")
        self.errors = ErrorLog()
        limits = Settings(max_event_bytes=100_000, max_state_bytes=100_000, max_inline_bytes=1_000)
        self.rt = Runtime(
            fuzzing.planned_agent(self.puppet),
            app_name="fuzz",
            engine="local",
            session_store=self.store,
            artifact_store=f"file://{folder}",
            memory_store="sqlite://",
            settings=limits,
        )
        self._loop = asyncio.new_event_loop()
        self.turns = 0
        self._read: dict[tuple[str, str], int] = {}

    def __enter__(self) -> FuzzedRuntime:
        logging.getLogger().addHandler(self.errors)
        self.rt.__enter__()
        return self

    def __exit__(self, *_: Any) -> None:
        self.rt.close()
        self._loop.close()
        logging.getLogger().removeHandler(self.errors)

    def turn(self, **asked: Any) -> list[Event]:
        """A turn that ends: with its events, or with none when it was refused or has failed."""
        self.turns += 1
        config = asked.pop("run_config", None) or RunConfig(max_llm_calls=6, max_transfers=4)
        try:
            turn = self.rt.run(run_config=config, **asked)
            return list(self._loop.run_until_complete(asyncio.wait_for(turn.aio.result(), HANGS_S)).events)
        except RaygroveError:
            return []
        finally:
            self.puppet.plan, self.puppet.result, self.puppet.delta = [], None, {}

    def check(self, user_id: str = "ada", session_id: str = "s1") -> None:
        """The log can be read, has no gaps, and says in words how each turn has ended."""
        assert self.errors.told == []
        session = self.rt.sessions.get(user_id, session_id)
        events = list(session.events) if session is not None else []
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        # Those of earlier cases were read after these.
        for event in events[self._read.get((user_id, session_id), 0) :]:
            assert Event.from_json(event.to_json()).id == event.id
        self._read[user_id, session_id] = len(events)

    def check_all(self) -> None:
        """Every turn has ended, every log is whole, and a plain turn works in each session."""
        self._read.clear()
        for session in self.rt.sessions.list():
            self.check(session.user_id, session.id)
            (event,) = self.turn(user_id=session.user_id, session_id=session.id, message="and now?")
            assert event.text == "done"
        assert self.store.running("fuzz") == []
        assert self.rt.statistics().runner.counts["running"] == 0


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzedRuntime]:
    with FuzzedRuntime(tmp_path_factory.mktemp("fuzz")) as made:
        yield made


@pytest.fixture(autouse=True)
def whole_afterwards(fuzzed: FuzzedRuntime) -> Iterator[None]:
    yield
    fuzzed.check_all()


@cases(700)
@given(st.data())
def test_whatever_is_sent(fuzzed: FuzzedRuntime, data: st.DataObject) -> None:
    asked: dict[str, Any] = {"user_id": "ada", "session_id": "s1", "message": data.draw(fuzzing.messages)}
    if data.draw(st.booleans()):
        asked["state_delta"] = data.draw(st.dictionaries(fuzzing.words, fuzzing.json, max_size=3) | st.just({"k": object()}))
    odd = data.draw(st.sampled_from(["", "user_id", "session_id", "invocation_id", "config"]))
    if odd == "config":
        metadata, blobs = data.draw(fuzzing.json), data.draw(st.booleans())
        asked["run_config"] = _config(custom_metadata={"k": metadata}, save_input_blobs_as_artifacts=blobs, streaming="sse")
    elif odd:
        asked[odd] = data.draw(fuzzing.ids)
    fuzzed.turn(**asked)
    fuzzed.check()


def _config(**fields: Any) -> RunConfig | None:
    try:
        return RunConfig(max_llm_calls=6, **fields)
    except ValueError:
        return None


@cases(900)
@given(st.data())
def test_whatever_a_model_says(fuzzed: FuzzedRuntime, data: st.DataObject) -> None:
    fuzzed.puppet.plan = data.draw(st.lists(fuzzing.answers, min_size=1, max_size=3))
    if data.draw(st.integers(0, 9)) == 0:
        fuzzed.puppet.plan.append(data.draw(fuzzing.failures))
    session_id = data.draw(st.sampled_from(["m1", "m2", "m3", "m4"]))
    streaming = data.draw(st.sampled_from(["none", "sse"]))
    fuzzed.turn(
        user_id="ada",
        session_id=session_id,
        message="go",
        run_config=RunConfig(max_llm_calls=6, max_transfers=4, streaming=streaming),  # type: ignore[arg-type]
    )
    if data.draw(st.booleans()):
        fuzzed.turn(user_id="ada", session_id=session_id, message=data.draw(fuzzing.contents))
    fuzzed.check("ada", session_id)


@cases(300)
@given(st.data())
def test_whatever_a_tool_does(fuzzed: FuzzedRuntime, data: st.DataObject) -> None:
    made = data.draw(st.lists(st.sampled_from(["echo", "later", "consent"]), min_size=1, max_size=3))
    fuzzed.puppet.plan = [hostile.answer(*(hostile.call(name=name) for name in made))]
    fuzzed.puppet.result = data.draw(st.one_of(fuzzing.junk, fuzzing.json, fuzzing.failures))
    fuzzed.puppet.delta = data.draw(st.dictionaries(fuzzing.words, fuzzing.json | fuzzing.junk, max_size=2))
    session_id = data.draw(st.sampled_from(["t1", "t2", "t3"]))
    events = fuzzed.turn(user_id="ada", session_id=session_id, message="go")
    if set(made) == {"echo"}:
        answered = [len(list(event.function_responses())) for event in events]
        assert answered == [0, len(made), 0]
    fuzzed.check("ada", session_id)


@cases(250)
@given(event=fuzzing.events, state=fuzzing.objects)
def test_whatever_is_put_into_a_log(fuzzed: FuzzedRuntime, event: Event, state: Any) -> None:
    rt = fuzzed.rt
    for attempt in (
        lambda: rt.sessions.create("ada", "e1"),
        lambda: rt.sessions.append_event("ada", "e1", event),
        lambda: rt.sessions.create("eve", None, state),
    ):
        with suppress(RaygroveError):
            attempt()
    fuzzed.check("ada", "e1")


@cases(250)
@given(user_id=fuzzing.ids, session_id=fuzzing.ids, name=fuzzing.words | fuzzing.junk, part=fuzzing.parts)
def test_whatever_is_saved(fuzzed: FuzzedRuntime, user_id: Any, session_id: Any, name: Any, part: Any) -> None:
    artifacts = fuzzed.rt.artifacts
    version = None
    with suppress(RaygroveError):
        version = artifacts.save(user_id, session_id, name, part)
    if version is not None:
        assert artifacts.load(user_id, session_id, name, version) == decode(encode(part), Part)
        assert name in artifacts.list_keys(user_id, session_id)
