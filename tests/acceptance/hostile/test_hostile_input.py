"""Malicious input is refused with an error that says what is wrong, and everything goes on as before."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors import Content, Event, FunctionResponse, LlmAgent, Part, RunConfig, tool
from actors.errors import (
    ArtifactError,
    InvalidIdError,
    InvalidMessageError,
    NotEncodableError,
    RaygroveError,
    UnknownFunctionCallError,
)
from tests.support.agents.hostile_code import ToolCallingModel, check_session_works, log, nested, plain_agent
from tests.support.runtimes import Deploy, author_texts, run_turn

LEGAL_IDS = [
    "ada@example.com",
    "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "auth0|5f7c8ec7c33c6c004bbafe82",
    "https://accounts.example.com/users/7?x=1#top",
    "tenant/7:user/8",
    "O'Brien; DROP TABLE raygrove_events; --",
    '" OR ""="',
    "%",
    "_",
    "..",
    "../../etc/passwd",
    "/absolute",
    "C:\\windows",
    "山田　太郎",
    "می‌خواهم",
    "👩‍👩‍👧",
    "é",
    "e\u0301",
    "Ada",
    "ada",
    "user:",
    "app:x",
    "x" * 256,
    "😀" * 256,
]
"""What people really have, and what looks like an attack but is only a name."""


def test_whatever_can_be_shown_on_a_line_is_an_id_and_each_is_its_own(local: Deploy, tmp_path: Path) -> None:
    with local(plain_agent()) as rt:
        for number, name in enumerate(LEGAL_IDS):
            delta = {"n": number, "user:n": number}
            assert author_texts(run_turn(rt, f"I am {number}", name, name, state_delta=delta, invocation_id=name)) == [
                ("root", "fine")
            ]
            rt.artifacts.save(name, name, "f", Part(text=str(number)))
            rt.memory.add_session(name, name)
        for number, name in enumerate(LEGAL_IDS):
            session = rt.sessions.get(name, name)
            assert session is not None
            assert (session.user_id, session.id, session.state) == (name, name, {"n": number, "user:n": number})
            assert [event.text for event in session.events] == [f"I am {number}", "fine"]
            assert rt.artifacts.load(name, name, "f") == Part(text=str(number))
            assert rt.artifacts.list_keys(name, name) == ["f"]
            assert [found.text for found in rt.memory.search(name, "am")] == [f"I am {number}"]
            assert [each.id for each in rt.sessions.list(name)] == [name]
        assert len(rt.sessions.list()) == len(LEGAL_IDS)
    folder = tmp_path / "artifacts" / "test"
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix not in (".db", ".db-wal", ".db-shm")]
    assert len(files) == len(LEGAL_IDS)
    assert all(path.relative_to(folder).parts[1:3:2] == ("sessions",) for path in files)
    assert len({path.relative_to(folder).parts[0].lower() for path in files}) == len(LEGAL_IDS)


ILLEGAL_IDS: list[Any] = [
    "",
    " ",
    " ada",
    "ada\n",
    "a\nb",
    "a\x00b",
    "\x1b[31m",
    "\ud800",
    "\u202eada",
    "a\u2028b",
    "x" * 257,
    None,
    7,
    b"ada",
    ["a"],
]


def test_what_cannot_be_an_id_is_refused_wherever_one_is_given(local: Deploy) -> None:
    with local(plain_agent()) as rt:
        run_turn(rt, "hi")
        before = log(rt)
        asks: list[Callable[[Any], Any]] = [
            lambda bad: rt.run(user_id=bad, session_id="s1", message="hi"),
            lambda bad: rt.run(user_id="ada", session_id=bad, message="hi"),
            lambda bad: rt.attach(user_id=bad, session_id="s1", invocation_id="e-1"),
            lambda bad: rt.attach(user_id="ada", session_id=bad, invocation_id="e-1"),
            lambda bad: rt.attach(user_id="ada", session_id="s1", invocation_id=bad),
            lambda bad: rt.sessions.create(bad),
            lambda bad: rt.sessions.get(bad, "s1"),
            lambda bad: rt.sessions.get("ada", bad),
            lambda bad: rt.sessions.delete(bad, "s1"),
            lambda bad: rt.sessions.rewind("ada", "s1", bad),
            lambda bad: rt.sessions.append_event("ada", bad, Event(author="root")),
            lambda bad: rt.artifacts.save(bad, "s1", "f", Part(text="x")),
            lambda bad: rt.artifacts.load("ada", bad, "f"),
            lambda bad: rt.artifacts.list_keys(bad, "s1"),
            lambda bad: rt.artifacts.list_versions("ada", bad, "f"),
            lambda bad: rt.artifacts.delete("ada", bad, "f"),
            lambda bad: rt.memory.add_session(bad, "s1"),
            lambda bad: rt.memory.search(bad, "x"),
            lambda bad: rt.memory.delete_session("ada", bad),
        ]
        for bad in ILLEGAL_IDS:
            for ask in asks:
                with pytest.raises(InvalidIdError, match="is not valid: use a text of 1 to 256"):
                    ask(bad)
            if bad is not None:
                with pytest.raises(InvalidIdError):
                    rt.run(user_id="ada", session_id="s1", message="hi", invocation_id=bad)
                with pytest.raises(InvalidIdError):
                    rt.sessions.create("ada", bad)
                with pytest.raises(InvalidIdError):
                    rt.sessions.list(bad)
        assert log(rt) == before
        check_session_works(rt)


def test_an_event_that_is_added_has_an_author_and_ids(local: Deploy) -> None:
    with local(plain_agent()) as rt:
        run_turn(rt, "hi")
        before = log(rt)
        for wrong in (
            {"author": ""},
            {"author": "a\x00"},
            {"author": "a", "id": "x" * 300},
            {"author": "a", "invocation_id": "\n"},
        ):
            with pytest.raises(InvalidIdError):
                rt.sessions.append_event("ada", "s1", Event(**wrong))  # type: ignore[arg-type]
        with pytest.raises(NotEncodableError, match="author"):
            rt.sessions.append_event("ada", "s1", Event(author=7))  # type: ignore[arg-type]
        with pytest.raises(InvalidMessageError, match="partial"):
            rt.sessions.append_event("ada", "s1", Event(author="a", partial=True))
        with pytest.raises(TypeError, match="an Event"):
            rt.sessions.append_event("ada", "s1", "hello")  # type: ignore[arg-type]
        assert log(rt) == before
        check_session_works(rt)


def test_a_name_that_no_artifact_can_have_is_refused_to_programs_and_to_tools(local: Deploy, tmp_path: Path) -> None:
    refused: list[Any] = ["a\x00b", "a\nb", "\ud800", "\u202egpj.exe", "x" * 1025, None, 7, b"f"]
    tried: list[Any] = []

    @tool
    async def misuse(tool_context: Any) -> list[str]:
        """Try all of them."""
        for name in refused:
            for attempt in (tool_context.save_artifact(name, Part(text="x")), tool_context.load_artifact(name)):
                with pytest.raises(InvalidIdError, match="artifact name"):
                    await attempt
                tried.append(name)
        return await tool_context.list_artifacts()  # type: ignore[no-any-return]

    with local(LlmAgent(name="root", model=ToolCallingModel("misuse"), tools=[misuse])) as rt:
        for name in refused:
            for ask in (rt.artifacts.load, rt.artifacts.list_versions, rt.artifacts.delete):
                with pytest.raises(InvalidIdError, match="artifact name"):
                    ask("ada", "s1", name)
            with pytest.raises(InvalidIdError, match="artifact name"):
                rt.artifacts.save("ada", "s1", name, Part(text="x"))
        for empty in ("", "user:"):
            with pytest.raises(ArtifactError):
                rt.artifacts.save("ada", "s1", empty, Part(text="x"))
        with pytest.raises(TypeError):
            rt.artifacts.load("ada", "s1", "f", "../../../x")  # type: ignore[arg-type]
        events = run_turn(rt, "go")
        assert [each.response for event in events for each in event.function_responses()] == [{"result": []}]
        assert len(tried) == 2 * len(refused)
    assert not (tmp_path / "artifacts").exists()


def test_a_message_that_is_not_made_as_one_is_refused(local: Deploy) -> None:
    def response(**fields: Any) -> Content:
        return Content(parts=[Part(function_response=FunctionResponse(id="c1", name="f", **fields))])

    hostile_messages: list[tuple[Any, type[Exception] | tuple[type[Exception], ...]]] = [
        (Content(parts=[Part(text=7)]), RaygroveError),  # type: ignore[arg-type]
        (Content(parts=["text"]), InvalidMessageError),  # type: ignore[list-item]
        (Content(parts=7), InvalidMessageError),  # type: ignore[arg-type]
        (Content(parts=[Part(text="\ud800")]), NotEncodableError),
        (Content(parts=[Part(text="x", part_metadata={"k": object()})]), NotEncodableError),
        (Content(parts=[Part(text="x", part_metadata=nested(150))]), InvalidMessageError),
        (Content(parts=[Part(text="x", part_metadata=nested(20_000))]), (InvalidMessageError, NotEncodableError)),
        (Content(parts=[Part(text="x", part_metadata={"k": math.nan})]), InvalidMessageError),
        (response(response={"k": math.inf}), InvalidMessageError),
        (response(response="text"), RaygroveError),
        (response(), UnknownFunctionCallError),
        (object(), InvalidMessageError),
        ({"role": "user", "text": "hi"}, InvalidMessageError),
        ({"role": "user", "parts": []}, InvalidMessageError),
        ({"parts": [{"functionResponse": {"id": "c1", "name": "f"}}]}, UnknownFunctionCallError),
    ]
    with local(plain_agent()) as rt:
        run_turn(rt, "hi")
        for message, error in hostile_messages:
            with pytest.raises(error):
                run_turn(rt, message)
            with pytest.raises(error):
                run_turn(rt, message, "new")
        unfit: list[dict[str, Any]] = [
            {"custom_metadata": {"k": object()}},
            {"custom_metadata": {1: 2}},
        ]
        for options in unfit:
            with pytest.raises(RaygroveError):
                run_turn(rt, "hi", run_config=RunConfig(**options))
        refused: list[dict[str, Any]] = [{"timeout": math.nan}, {"max_llm_calls": "many"}, {"custom_metadata": nested(150)}]
        for options in refused:
            with pytest.raises(ValueError, match="RunConfig"):
                RunConfig(**options)
        assert (len(log(rt)), rt.sessions.get("ada", "new")) == (2, None)
        check_session_works(rt)
