"""Models' responses are made fit for the log, whatever a model may say."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors import Blob, Content, FunctionCall, FunctionResponse, LlmResponse, Part
from actors.errors import ModelResponseError, NotEncodableError
from actors.messages.codec import decode, encode
from actors.messages.event import Event, encode_event
from actors.rules.checks.model_answer import MALFORMED, ModelAnswer, checked_response, large_data, placeholder
from tests.support import fuzz_values as fuzzing
from tests.support.tries import tries


def checked(response: Any, warnings: list[str] | None = None) -> LlmResponse:
    return checked_response(response, "m", (warnings if warnings is not None else []).append)


@settings(max_examples=tries(500), suppress_health_check=list(HealthCheck))
@given(fuzzing.answers)
def test_what_is_fit_can_be_stored_and_is_fit_already(answer: Any) -> None:
    try:
        made = checked(answer)
    except ModelResponseError as error:
        encode(str(error))
        return
    # By their bytes: a number that is none is not equal to itself.
    assert encode(checked(made)) == encode(decode(encode(made), LlmResponse)) == encode(made)
    if made.content is not None:
        assert made.content.role == "model"
        assert not list(made.content.function_responses())
        assert all(isinstance(call.args, dict) for call in made.content.function_calls())


def said(*parts: Part, warnings: list[str] | None = None) -> list[Part]:
    made = checked(LlmResponse(content=Content(role="user", parts=parts)), warnings)
    return list(made.content.parts) if made.content is not None else []


def test_an_answer_that_is_in_order_stays_as_it_is() -> None:
    parts = [
        Part(text="hm", thought=True, thought_signature=b"s"),
        Part(text="look"),
        Part(function_call=FunctionCall(id="c1", name="f", args={"a": [1, {"b": None}]})),
        Part(inline_data=Blob(data=b"x", mime_type="image/png")),
    ]
    assert said(*parts) == parts


@pytest.mark.parametrize(
    ("given_args", "args"),
    [
        (None, {}),
        ("{}", {}),
        ('{"a": 1}', {"a": 1}),
        ({1: 2}, {"1": 2}),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        ("nonsense", {MALFORMED: "JSON is malformed: invalid character (byte 4): nonsense"}),
        ("[]", {MALFORMED: "Expected `object`, got `array`: []"}),
        (("[]",), {MALFORMED: "they are of type tuple"}),
        ({"a": ["\ud83d\ude00", {"\ud83d": 1}]}, {"a": ["\U0001f600", {"\ufffd": 1}]}),
        ('{"a": "\ud83d\ude00", "b": "\ud83d"}', {"a": "\U0001f600", "b": "\ufffd"}),
        (r'{"a": "\ud83d\ude00", "b": "\uD83D"}', {"a": "\U0001f600", "b": "\ufffd"}),
        ({"a": [math.inf]}, {MALFORMED: "NaN and infinity are no JSON values: use None or a text instead"}),
    ],
)
def test_arguments_become_an_object_or_tell_why_not(given_args: Any, args: dict[str, Any]) -> None:
    (part,) = said(Part(function_call=FunctionCall(name="f", args=given_args)))
    assert part.function_call is not None
    assert part.function_call.args == args


def test_a_response_of_a_model_is_left_out_and_what_stands_beside_it_is_not() -> None:
    response = FunctionResponse(id="c1", name="f", response={"a": 1})
    warnings: list[str] = []
    parts = [Part(text="x"), Part(function_response=response), Part(text="y", function_response=response)]
    assert said(*parts, warnings=warnings) == [Part(text="x"), Part(text="y")]
    assert warnings == ["a model answered the call 'c1' itself: that is left out"] * 2
    assert said(Part(function_response=response)) == []


def test_only_data_that_is_too_large_is_large() -> None:
    parts = [Part(inline_data=Blob(data=b"x" * size)) for size in (0, 10, 11)] + [Part(text="x" * 100)]
    assert large_data(parts, 10) == [2]
    small = ModelAnswer("m").add_partial(Content(role="user", parts=parts), 10)
    assert small == Content(role="model", parts=[*parts[:2], parts[3]])
    for nothing in (Content(parts=parts[2:3]), Content(), None):
        assert ModelAnswer("m").add_partial(nothing, 10) is None
    for wrong in ("text", Content(parts="text"), Content(parts=[Part(inline_data="x")]), Content(parts=[Part(text=7)])):  # type: ignore[arg-type]
        with pytest.raises(ModelResponseError, match="a piece of it is malformed"):
            ModelAnswer("m").add_partial(wrong, 10)  # type: ignore[arg-type]
    signed = Part(inline_data=Blob(data=b"x" * 20), thought_signature=b"s")
    assert placeholder("f", signed) == Part(text="Generated file: f. It is saved into artifacts", thought_signature=b"s")


halves = st.text(st.sampled_from("a\u00e9\ud83d\ude00"), max_size=8)


@settings(max_examples=tries(300))
@given(st.lists(halves, max_size=5))
def test_a_text_in_pieces_has_the_same_characters_as_in_one(pieces: list[str]) -> None:
    answer, text = ModelAnswer("m"), "".join(pieces)
    shown = [answer.add_partial(Content.of_text(piece), 0) for piece in pieces]
    whole = "".join(part.text or "" for part in said(Part(text=text)))
    waits = "\ufffd" * text.endswith("\ud83d")
    assert "".join(content.text for content in shown if content is not None) == whole.removesuffix(waits)
    joined = text.replace("\ud83d\ude00", "\U0001f600")
    assert whole.replace("\ufffd", "") == joined.encode(errors="ignore").decode()


@settings(max_examples=tries(500), suppress_health_check=list(HealthCheck))
@given(fuzzing.events)
def test_an_event_that_is_encoded_can_be_read_by_everybody(event: Event) -> None:
    try:
        raw = encode_event(event)
    except NotEncodableError as error:
        encode(str(error))
    else:
        read = decode(raw, Event)
        assert Event.from_json(read.to_json()).id == event.id


@given(st.lists(st.booleans(), max_size=6))
def test_an_answer_is_taken_only_when_nothing_of_it_is_lost(are_partial: list[bool]) -> None:
    whole = LlmResponse(content=Content.of_text("whole"))

    def taken() -> object:
        answer = ModelAnswer("m")
        for is_partial in are_partial:
            if is_partial:
                answer.add_partial(None, 0)
            else:
                answer.add_complete(whole)
        return answer.complete()

    if not are_partial:
        assert taken() == LlmResponse()
    elif are_partial == [True] * (len(are_partial) - 1) + [False]:
        assert taken() == whole
    else:
        with pytest.raises(ModelResponseError, match="one whole answer"):
            taken()
