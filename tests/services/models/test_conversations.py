"""What models of every class do in conversations, against services that refuse what the real ones refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent, LongRunningFunctionTool, RunConfig, tool
from actors.errors import AgentFailedError, ModelServiceError
from actors.interfaces.model import Model
from actors.messages.protocol.runs import Finished
from actors.rules.prompt.compiler import NO_ANSWER
from runtime import Runtime
from runtime.models.fallback import FallbackModel
from tests.support.models.vendors import (
    Answer,
    AnthropicService,
    Call,
    GeminiService,
    MakeService,
    OpenAIService,
    OwnService,
    SameIndex,
    Service,
    Thought,
)
from tests.support.runtimes import Deploy
from tests.support.servers.gemini_server import Failure

pytestmark = pytest.mark.sampled(3, of="module", full=3)

SERVICES: list[MakeService] = [GeminiService, OpenAIService, AnthropicService, OwnService]

USER: dict[str, Any] = {"user_id": "ada", "session_id": "s1"}

Enter = Callable[[Service], Service]


@pytest.fixture
def enter() -> Iterator[Enter]:
    with ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def deploy(tmp_path: Path) -> Deploy:
    return Deploy("local", tmp_path)


@pytest.fixture(params=[False, True], ids=["alone", "in a FallbackModel"])
def model_of(request: pytest.FixtureRequest) -> Callable[[Service], Model]:
    """The model of a service, as it is or as the first of two."""
    return lambda service: FallbackModel([service.model(), service.model()]) if request.param else service.model()


@pytest.fixture(params=["none", "sse"], ids=["whole", "streamed"])
def config(request: pytest.FixtureRequest) -> RunConfig:
    return RunConfig(streaming=request.param)


def look(place: str) -> dict[str, str]:
    """Look at a place."""
    return {"seen": place}


@tool(require_confirmation=True)
def delete(name: str) -> str:
    """Delete something."""
    return f"{name} is deleted"


@LongRunningFunctionTool
def order(what: str) -> None:
    """Order something."""


def agent(model: Model) -> LlmAgent:
    return LlmAgent(name="clerk", model=model, tools=[look, delete, order])


def texts(rt: Runtime, message: str, config: RunConfig) -> tuple[str, str]:
    """What a turn says, in pieces and whole."""
    events = list(rt.run(**USER, message=message, run_config=config))
    shown = "".join(event.text for event in events if event.partial)
    return shown, next((event.text for event in reversed(events) if event.is_final_response() and not event.partial), "")


@pytest.mark.parametrize("make", SERVICES)
def test_each_call_has_a_response_also_one_that_waits_and_one_that_was_approved_and_has_not_run(
    make: MakeService, enter: Enter, model_of: Callable[[Service], Model], deploy: Deploy
) -> None:
    calls = [
        Call("order", {"what": "tea"}, "c1"),
        Call("look", {"place": "Rome"}, "c2"),
        Call("delete", {"name": "a"}, "c3"),
        Call("delete", {"name": "b"}, "c4"),
    ]
    service = enter(make(Answer(calls), Answer(["Not yet."]), Answer(["All is done."])))
    with deploy(agent(model_of(service))) as rt:
        waiting = rt.run(**USER, message="do it").result()
        rt.answer("c3", confirmed=True, **USER).result()
        assert rt.run(**USER, message="is it done?").result().text == "Not yet."
        rt.answer("c1", "ordered", **USER).result()
        assert rt.answer("c4", confirmed=False, **USER).result().text == "All is done."
    assert len(waiting.outcome.call_ids) == 3  # type: ignore[union-attr]
    made = [("call", call.name) for call in calls]
    _, moved_on, end = service.heard()
    assert moved_on == [
        ("user", "do it"),
        *made,
        ("answer", "order", NO_ANSWER),
        ("answer", "look", {"seen": "Rome"}),
        ("answer", "delete", NO_ANSWER),
        ("answer", "delete", NO_ANSWER),
        ("user", "is it done?"),
    ]
    assert end[-4:] == [
        ("answer", "order", {"result": "ordered"}),
        ("answer", "look", {"seen": "Rome"}),
        ("answer", "delete", {"result": "a is deleted"}),
        ("answer", "delete", {"error": "This tool call is rejected."}),
    ]


@pytest.mark.parametrize("call_id", [None, "same"])
@pytest.mark.parametrize("make", [*SERVICES, SameIndex])
def test_calls_without_ids_of_their_own_stay_apart(
    make: MakeService, call_id: str | None, config: RunConfig, enter: Enter, deploy: Deploy
) -> None:
    calls = [Call("look", {"place": place}, call_id) for place in ("Rome", "Oslo", "Rome")]
    service = enter(make(Answer(calls), Answer(["Seen."])))
    with deploy(agent(service.model())) as rt:
        assert texts(rt, "look", config)[1] == "Seen."
    seen = [("answer", "look", {"seen": place}) for place in ("Rome", "Oslo", "Rome")]
    assert service.heard()[1] == [("user", "look"), *[("call", "look")] * 3, *seen]


@pytest.mark.parametrize("make", SERVICES)
def test_halves_of_a_character_are_joined_and_one_alone_is_replaced(
    make: MakeService, config: RunConfig, enter: Enter, deploy: Deploy
) -> None:
    halves = "ab\ud83d\ude00, \ud83d!"
    service = enter(make(Answer([Call("look", {"place": halves})]), Answer([halves])))
    with deploy(agent(service.model())) as rt:
        shown, whole = texts(rt, "look", config)
    assert whole == "ab\U0001f600, \ufffd!"
    assert shown == (whole if config.streaming == "sse" else "")
    assert service.heard()[1][-1] == ("answer", "look", {"seen": whole})


@pytest.mark.parametrize("broken", ['{"place": "Ro', "[1]", "Rome"])
@pytest.mark.parametrize("make", [OpenAIService, AnthropicService, OwnService])
def test_arguments_that_are_no_json_object_are_answered_with_what_is_wrong(
    make: MakeService, broken: str, config: RunConfig, enter: Enter, deploy: Deploy
) -> None:
    service = enter(make(Answer([Call("look", broken, "c1"), Call("look", {"place": "Rome"}, "c2")]), Answer(["Seen."])))
    with deploy(agent(service.model())) as rt:
        assert texts(rt, "look", config)[1] == "Seen."
    # A service may be asked again for the broken ones last: until its end nothing says whether they were cut.
    right, wrong = sorted(service.heard()[1][-2:], key=lambda heard: "error" in heard[-1])
    assert right == ("answer", "look", {"seen": "Rome"})
    assert broken in str(wrong)


@pytest.mark.parametrize("other", SERVICES)
@pytest.mark.parametrize("make", SERVICES)
def test_a_model_goes_on_with_a_turn_in_which_another_one_has_called_tools(
    make: MakeService, other: MakeService, config: RunConfig, enter: Enter, deploy: Deploy
) -> None:
    """It is down at first; then the other one is, after two steps."""
    thinks = [Thought("Where is it?")] if other is not OwnService else []
    steps = [
        Answer([*thinks, Call("look", {"place": "Rome"}, "c1"), Call("look", {"place": "Oslo"}, "c2")]),
        Answer([*thinks, Call("look", {"place": "Bonn"}, "c3")]),
    ]
    down = Failure(503)
    first = enter(make(down, down, Answer([Call("look", {"place": "Lund"}, "c4")]), Answer(["Seen."])))
    second = enter(other(*steps, down, down))
    with deploy(agent(FallbackModel([first.model(), second.model()]))) as rt:
        assert texts(rt, "look", config)[1] == "Seen."
    assert [heard for heard in first.heard()[-1] if heard[0] != "model"] == [
        ("user", "look"),
        *_looked("Rome", "Oslo"),
        *_looked("Bonn"),
        *_looked("Lund"),
    ]


def _looked(*places: str) -> Sequence[object]:
    return [*[("call", "look")] * len(places), *(("answer", "look", {"seen": place}) for place in places)]


EMPTY = [
    (Answer([]), "MODEL_RETURNED_NO_CONTENT"),
    (Answer([Thought("Hm.")]), "MODEL_RETURNED_NO_CONTENT"),
    (Answer([], "MALFORMED_FUNCTION_CALL"), "MALFORMED_FUNCTION_CALL"),
    (Answer([], "UNEXPECTED_TOOL_CALL"), "UNEXPECTED_TOOL_CALL"),
]


@pytest.mark.parametrize(("empty", "code"), EMPTY, ids=["nothing", "thoughts", "malformed", "unexpected"])
@pytest.mark.parametrize("make", SERVICES)
def test_a_model_that_says_nothing_is_asked_again_once_and_then_the_turn_says_why(
    make: MakeService, empty: Answer, code: str, config: RunConfig, enter: Enter, deploy: Deploy
) -> None:
    service = enter(make(empty, Answer(["At last."]), empty, empty, empty, empty, empty))
    with deploy(agent(service.model())) as rt:
        mended = rt.run(**USER, message="go", run_config=config).result()
        silent = rt.run(**USER, message="and now?", run_config=config).result()
        once = rt.run(**USER, message="once", run_config=RunConfig(max_llm_calls=1)).result()
        [mapped] = rt.map(["map"])
    assert (mended.text, mended.error_code) == ("At last.", "")
    assert [(each.text, each.error_code, type(each.outcome)) for each in (silent, once)] == [("", code, Finished)] * 2
    assert silent.error_message
    assert len(service.heard()) == 7
    assert isinstance(mapped.error, AgentFailedError)


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY"])
@pytest.mark.parametrize("make", SERVICES)
def test_a_model_that_was_stopped_is_not_asked_again_and_what_it_has_said_stays(
    make: MakeService, reason: str, config: RunConfig, enter: Enter, deploy: Deploy
) -> None:
    is_cut = reason == "MAX_TOKENS" and make in (OpenAIService, AnthropicService)
    cut = Answer([Call("look", '{"place": "Ro')] if is_cut else [], reason)
    service = enter(make(cut, Answer(["Once upon"], reason)))
    with deploy(agent(service.model())) as rt:
        stopped, told = (rt.run(**USER, message=message, run_config=config).result() for message in ("go", "tell"))
    assert (stopped.text, stopped.error_code, stopped.finish_reason) == ("", reason, reason)
    assert (told.text, told.error_code, told.finish_reason) == ("Once upon", "", reason)


@pytest.mark.parametrize("make", [GeminiService, OpenAIService, AnthropicService])
def test_the_password_of_a_url_reaches_the_service_and_no_log(
    make: MakeService, enter: Enter, deploy: Deploy, caplog: pytest.LogCaptureFixture
) -> None:
    service = enter(make(Answer(["Hello."]), Failure(403)))
    service.user = "ada:pass%20word@"  # type: ignore[attr-defined]
    caplog.set_level("DEBUG")
    with deploy(agent(service.model())) as rt:
        assert rt.run(**USER, message="hi").result().text == "Hello."
        with pytest.raises(ModelServiceError) as caught:
            rt.run(**USER, message="hi").result()
    sent = [request.headers["authorization"] for request in service.server.requests]  # type: ignore[attr-defined]
    assert sent == ["Basic YWRhOnBhc3Mgd29yZA=="] * 2
    # Google's client logs no requests.
    assert ("HTTP Request" in caplog.text) == (make is not GeminiService)
    assert not [text for text in (caplog.text, str(caught.value)) if "pass%20word" in text or "pass word" in text]
