"""Mistakes of users: each is refused with an error that names the mistake, nothing is stored, and everything else works."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from actors import (
    BaseAgent,
    Content,
    CustomAgent,
    Event,
    FunctionCall,
    FunctionResponse,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Part,
    SequentialAgent,
)
from actors.errors import (
    AgentTreeError,
    DefinitionError,
    InvalidIdError,
    InvalidMessageError,
    ModelConfigurationError,
    RaygroveError,
    RepeatMismatchError,
    RequestError,
    RuntimeClosedError,
    SessionNotFoundError,
    UnknownFunctionCallError,
    UnknownModelError,
)
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.models.openai import OpenAIModel
from runtime.models.service import ServiceModel
from runtime.settings import Settings
from tests.support.runtimes import Deploy, author_texts, run_turn


def root(**options: Any) -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="fine"), **options)


def log(rt: Runtime, session_id: str = "s1") -> list[Event] | None:
    session = rt.sessions.get("ada", session_id)
    return list(session.events) if session is not None else None


def parts(*given: Part) -> Content:
    return Content(role="user", parts=given)


CALL = Part(function_call=FunctionCall(id="c1", name="look_up"))
UNASKED = Part(function_response=FunctionResponse(id="nobody-asked", name="look_up", response={"a": 1}))
WITHOUT_ID, EMPTY_ID = (
    Part(function_response=FunctionResponse(id=call_id, name="look_up", response={"a": 1})) for call_id in (None, "")
)

BAD_TURNS: list[tuple[dict[str, Any], type[RaygroveError], str]] = [
    ({"message": None}, InvalidMessageError, "message has no parts"),
    ({"message": ""}, InvalidMessageError, "message has no parts"),
    ({"message": parts()}, InvalidMessageError, "message has no parts"),
    ({"message": parts(Part(), Part(text=""))}, InvalidMessageError, "message has no parts"),
    ({"message": 42}, InvalidMessageError, "not int"),
    ({"message": parts(Part(text="please"), CALL)}, InvalidMessageError, "function call .*look_up"),
    ({"message": parts(UNASKED)}, UnknownFunctionCallError, "nobody-asked"),
    ({"message": parts(Part(text="here"), UNASKED)}, UnknownFunctionCallError, "nobody-asked"),
    ({"message": parts(WITHOUT_ID)}, InvalidMessageError, "look_up.*without the id"),
    ({"message": parts(EMPTY_ID)}, InvalidMessageError, "look_up.*without the id"),
    ({"message": "hi", "auto_create_session": False, "session_id": "unknown"}, SessionNotFoundError, "unknown.*ada.*test"),
    ({"message": "hi", "user_id": ""}, InvalidIdError, "user id ''"),
    ({"message": "hi", "session_id": " s1"}, InvalidIdError, "session id ' s1'"),
    ({"message": "hi", "session_id": "a\nb"}, InvalidIdError, "session id"),
    ({"message": "hi", "session_id": "x" * 300}, InvalidIdError, "256"),
]


def test_a_turn_that_cannot_be_is_refused_before_anything_is_stored(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        run_turn(rt, "hi")
        before = log(rt)
        for options, error, words in BAD_TURNS:
            asked = {"user_id": "ada", "session_id": "s1", **options}
            with pytest.raises(error, match=words):
                rt.run(**asked).result()
            assert log(rt) == before
            with pytest.raises(error, match=words):
                rt.run(**{**asked, "session_id": options.get("session_id", "new")}).result()
            assert log(rt, "new") is None
        assert [session.id for session in rt.sessions.list()] == ["s1"]
        assert author_texts(run_turn(rt, "hi")) == [("root", "fine")]


def test_an_answer_that_comes_with_one_to_an_unknown_call_is_refused_as_a_whole(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        rt.sessions.create("ada", "s1")
        rt.sessions.append_event("ada", "s1", Event(author="root", content=Content(role="model", parts=[CALL])))
        before = log(rt)
        known = Part(function_response=FunctionResponse(id="c1", name="look_up", response={"a": 1}))
        with pytest.raises(UnknownFunctionCallError, match="nobody-asked"):
            run_turn(rt, parts(known, UNASKED))
        assert log(rt) == before
        assert run_turn(rt, parts(known))


NUMBERS: dict[str, Callable[[Runtime, Any], object]] = {
    "after_seq": lambda rt, number: rt.sessions.events("ada", "s1", after_seq=number),
    "before_seq": lambda rt, number: rt.sessions.events("ada", "s1", before_seq=number),
    "limit": lambda rt, number: rt.sessions.events("ada", "s1", limit=number),
    "limit of sessions": lambda rt, number: rt.sessions.list(limit=number),
    "num_recent_events": lambda rt, number: rt.sessions.get("ada", "s1", num_recent_events=number),
    "limit of batches": lambda rt, number: rt.batches.list(limit=number),
    "limit of items": lambda rt, number: rt.batches.items("b1", limit=number),
    "after": lambda rt, number: rt.batches.items("b1", after=number),
}


@pytest.mark.parametrize("number", [2**63, 2**70, True, 1.0])
def test_numbers_that_no_store_can_compare_with_are_refused_by_their_names(local: Deploy, number: object) -> None:
    with local(root()) as rt:
        rt.run(user_id="ada", session_id="s1", message="hi").result()
        for name, asked in NUMBERS.items():
            with pytest.raises(RequestError, match=f"{name.partition(' ')[0]} must be "):
                asked(rt, number)
            asked(rt, 2**63 - 1)


def test_an_agent_whose_model_has_no_key_is_not_started(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.delenv(name, raising=False)
    answers = root(sub_agents=[LlmAgent(name="dear", model="gemini-2.5-flash")])
    # Models as objects, one of whose keys only the processes of the deployment have.
    mute = LlmAgent(name="mute", model=OpenAIModel("gpt-5", api_key_env="ACME_OTHER_KEY"))
    keyed = LlmAgent(name="keyed", model=Echo(model="echo-1"))
    top = LlmAgent(name="top", model="gemini-2.5-flash", sub_agents=[answers, mute, keyed])
    monkeypatch.delenv("ACME_KEY", raising=False)
    with deploy(top, settings=Settings(env={"ACME_KEY": "k"})) as rt:
        with pytest.raises(ModelConfigurationError, match=r"gemini-2\.5-flash.*GOOGLE_API_KEY"):
            run_turn(rt, "hi")
        assert log(rt) is None
        rt.sessions.create("ada", "s1")
        rt.sessions.append_event("ada", "s1", Event(author="root", content=Content.of_text("hello", role="model")))
        assert author_texts(run_turn(rt, "hi")) == [("root", "fine")]
        for author in ("mute", "keyed"):
            rt.sessions.create("ada", author)
            rt.sessions.append_event("ada", author, Event(author=author, content=Content.of_text("hello", role="model")))
        before = rt.sessions.get("ada", "mute")
        with pytest.raises(ModelConfigurationError, match=r"'gpt-5' cannot be used: there is no API key: set ACME_OTHER_KEY"):
            run_turn(rt, "hi", session_id="mute")
        assert rt.sessions.get("ada", "mute") == before
        assert author_texts(run_turn(rt, "hi", session_id="keyed")) == [("keyed", "echo-1 has k")]


class Echo(ServiceModel[str]):
    """A model of a user's, with a key."""

    key_variables = ("ACME_KEY",)

    def connect(self) -> str:
        return self.key() or "none"

    async def call(self, client: str, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=Content.of_text(f"{self.model} has {client}", role="model"))


class Node(CustomAgent):
    """A custom agent that is never run."""


def twice() -> BaseAgent:
    leaf = LlmAgent(name="leaf")
    return root(sub_agents=[LlmAgent(name="left", sub_agents=[leaf]), LlmAgent(name="right", sub_agents=[leaf])])


BAD_DEFINITIONS: list[tuple[Callable[[], Any], type[RaygroveError], str]] = [
    (lambda: None, DefinitionError, "root agent is required"),
    (lambda: "root", DefinitionError, "'root' is no agent, but a str"),
    (lambda: root(sub_agents=[Node(name="x"), SequentialAgent(name="s", sub_agents=[Node(name="x")])]), AgentTreeError, "'x'"),
    (lambda: root(sub_agents=[Node(name="root")]), AgentTreeError, "'root'"),
    (twice, AgentTreeError, "'leaf'.*'left'.*'right'"),
    (lambda: root(sub_agents=[Node(name="user")]), AgentTreeError, "'user'"),
    (lambda: root(sub_agents=[Node(name="a b")]), AgentTreeError, "'a b'"),
    (lambda: LlmAgent(name="root", model="gpt-17"), UnknownModelError, "'root'.*'gpt-17'"),
    (lambda: root(sub_agents=[LlmAgent(name="sub", model="gpt-17")]), UnknownModelError, "'sub'.*'gpt-17'"),
    (lambda: LlmAgent(name="root"), DefinitionError, "'root' has no model"),
    (lambda: LlmAgent(name="root", model=17), DefinitionError, "'root'.*model"),
    (lambda: root(instructions="typo"), DefinitionError, "'root'.*instructions"),
    (lambda: root(tools=[print, print]), DefinitionError, "print"),
    (lambda: root(sub_agents=[BaseAgent(name="plain")]), DefinitionError, "kinds of agents"),
]


@pytest.mark.parametrize("engine_name", ["local", "ray"])
def test_a_definition_that_cannot_be_is_refused_before_anything_is_started(engine_name: str, tmp_path: Path) -> None:
    deploy = Deploy(engine_name, tmp_path)
    for define, error, words in BAD_DEFINITIONS:
        with pytest.raises(error, match=words):
            deploy(define())
    with pytest.raises(DefinitionError, match="session service is required"):
        deploy(root(), session_store=None)
    with pytest.raises(InvalidIdError, match="app name"):
        deploy(root(), app_name="no spaces, please")
    with pytest.raises(DefinitionError, match="cloud"):
        deploy(root(), engine="cloud")
    assert list(tmp_path.iterdir()) == []


def test_a_runtime_that_is_not_started_or_is_closed_says_so(deploy: Deploy) -> None:
    rt = deploy(root())
    for use in (rt.sessions.list, lambda: run_turn(rt, "hi")):
        with pytest.raises(RuntimeClosedError, match=r"'test' was not started.*'with' block"):
            use()
    with rt:
        turn = rt.run(user_id="ada", session_id="s1", message="hi")
        assert str(turn.result()) == "fine"
    for use in (rt.sessions.list, lambda: run_turn(rt, "hi")):
        with pytest.raises(RuntimeClosedError, match="'test' is closed"):
            use()
    rt.close()
    assert [event.text for event in turn] == ["fine"]


def test_a_runtime_may_leave_the_making_of_sessions_to_others(deploy: Deploy) -> None:
    root = LlmAgent(name="root", model=PatternModel([("", "hello")]))
    with deploy(root, auto_create_session=False) as rt:
        with pytest.raises(SessionNotFoundError):
            run_turn(rt, "hi")
        assert author_texts(run_turn(rt, "hi", auto_create_session=True)) == [("root", "hello")]
        assert author_texts(run_turn(rt, "again")) == [("root", "hello")]


def test_a_turn_is_joined_by_the_request_that_began_it_also_after_a_restart(deploy: Deploy) -> None:
    turn: dict[str, Any] = {"user_id": "ada", "session_id": "s1", "invocation_id": "pay-1"}
    with deploy(root()) as rt:
        assert rt.run(**turn, message="hi", fingerprint="one").result().text == "fine"
        # A turn of a program without one is anybody's.
        assert rt.run(**{**turn, "invocation_id": "pay-2"}, message="hi").result().text == "fine"
    with deploy(root()) as rt:
        with pytest.raises(RepeatMismatchError, match="turn 'pay-1' of session 's1' began with another request"):
            rt.run(**turn, message="hi", fingerprint="another").result()
        for fingerprint in ("one", ""):
            assert rt.run(**turn, message="hi", fingerprint=fingerprint).result().text == "fine"
        assert rt.run(**{**turn, "invocation_id": "pay-2"}, message="hi", fingerprint="one").result().text == "fine"
        assert len(rt.sessions.events("ada", "s1")) == 4
