"""Contents in google-genai's form and in ours say the same; the contract covers the installed version's every field."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import ModelConfigurationError
from actors.messages import content as ours
from actors.messages.content import Blob, Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import Usage
from actors.messages.llm import FunctionDeclaration, LlmRequest
from runtime.models.genai_types import from_response, generate_config, to_genai, wire_content

MIRRORED = ["Part", "Content", "Blob", "FileData", "FunctionCall", "FunctionResponse", "ExecutableCode", "CodeExecutionResult"]


@pytest.mark.parametrize("name", [*MIRRORED, "VideoMetadata"])
def test_every_field_of_the_installed_sdk_has_a_field_of_ours(name: str) -> None:
    theirs = set(getattr(types, name).model_fields)
    assert theirs <= set(getattr(ours, name).__struct_fields__)


def test_every_token_count_of_ours_is_one_of_the_installed_sdk() -> None:
    assert set(Usage.__struct_fields__) <= set(types.GenerateContentResponseUsageMetadata.model_fields)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(max_size=8), json_values, max_size=3)
words = st.text(max_size=20)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


blobs = st.builds(Blob, data=st.binary(max_size=20), mime_type=maybe(words), display_name=maybe(words))
response_parts = st.binary(min_size=1, max_size=9).map(
    lambda data: {"inlineData": {"data": base64.b64encode(data).decode(), "mimeType": "a/b"}}
)
calls = st.builds(
    FunctionCall,
    id=maybe(words),
    name=words,
    args=json_objects,
    partial_args=maybe(st.just([{"jsonPath": "$.a", "stringValue": "x", "willContinue": True}])),
    will_continue=maybe(st.booleans()),
)
responses = st.builds(
    FunctionResponse,
    id=maybe(words),
    name=words,
    response=json_objects,
    parts=maybe(st.lists(response_parts, min_size=1, max_size=2)),
    will_continue=maybe(st.booleans()),
    scheduling=maybe(st.sampled_from(["SILENT", "WHEN_IDLE", "INTERRUPT"])),
)
code = st.builds(ours.ExecutableCode, code=maybe(words), language=maybe(st.just("PYTHON")), id=maybe(words))
results = st.builds(ours.CodeExecutionResult, outcome=maybe(st.just("OUTCOME_OK")), output=maybe(words), id=maybe(words))
newer = st.fixed_dictionaries(
    {},
    optional={
        name: st.just(value)
        for name, value in {
            "document_metadata": {"startPage": 1, "endPage": 2},
            "spreadsheet_metadata": {"sheetIndex": 1, "visibleCells": "A1:B2"},
            "audio_metadata": {"startOffset": "1.5s"},
        }.items()
        if name in types.Part.model_fields
    },
)
"""Fields that not every version of the SDK has."""

videos = st.builds(ours.VideoMetadata, start_offset=maybe(st.just("1.5s")), end_offset=maybe(words), fps=maybe(st.just(0.5)))
parts = st.builds(
    Part,
    text=maybe(words),
    thought=maybe(st.booleans()),
    thought_signature=maybe(st.binary(min_size=1, max_size=20)),
    function_call=maybe(calls),
    function_response=maybe(responses),
    inline_data=maybe(blobs),
    file_data=maybe(st.builds(ours.FileData, file_uri=maybe(words), mime_type=maybe(words), display_name=maybe(words))),
    executable_code=maybe(code),
    code_execution_result=maybe(results),
    video_metadata=maybe(videos),
    media_resolution=maybe(st.just({"level": "MEDIA_RESOLUTION_LOW"})),
    tool_call=maybe(json_objects.map(lambda args: {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "args": args})),
    tool_response=maybe(json_objects.map(lambda response: {"id": "t", "response": response})),
    part_metadata=maybe(json_objects.filter(bool)),
)
parts = st.builds(lambda part, more: msgspec.structs.replace(part, **more), parts, newer)
contents = st.builds(Content, role=maybe(st.sampled_from(["user", "model"])), parts=st.lists(parts, min_size=1, max_size=4))


@given(contents)
def test_a_content_survives_the_way_to_the_sdk_our_own_wire_and_web_clients_and_back(content: Content) -> None:
    theirs = to_genai(content)
    assert Content.from_genai(theirs) == content
    assert to_genai(Content.from_genai(theirs)) == theirs
    assert msgspec.json.decode(msgspec.json.encode(content), type=Content) == content
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(content), type=Content) == content
    assert Content.from_dict(content.to_dict()) == content
    assert Content.from_json(content.to_json()) == content
    # As google-genai itself writes it: its base64 has another alphabet, and its Python names are snake_case.
    assert to_genai(Content.from_json(theirs.model_dump_json(by_alias=True))) == theirs
    assert to_genai(Content.from_dict(theirs.model_dump(exclude_none=True))) == theirs


def test_a_call_without_arguments_has_empty_ones_and_so_has_an_empty_response() -> None:
    call, response = FunctionCall(id="1", name="now"), FunctionResponse(id="1", name="now")
    theirs = to_genai(Content(role="model", parts=[Part(function_call=call), Part(function_response=response)])).parts
    assert theirs is not None
    assert (theirs[0].function_call.args, theirs[1].function_response.response) == ({}, {})  # type: ignore[union-attr]
    # Arguments that are still on their way are not empty.
    streamed = Part(function_call=FunctionCall(name="now", will_continue=True))
    assert to_genai(Content(parts=[streamed])).parts[0].function_call.args is None  # type: ignore[index, union-attr]


def test_the_object_converted_is_not_touched() -> None:
    args = {"city": "Rome", "unknown": None}
    theirs = types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name="f", args=args))])
    converted = Content.from_genai(theirs)
    assert next(converted.function_calls()).args == args
    assert next(converted.function_calls()).args is not args
    assert theirs.parts is not None
    assert theirs.parts[0].function_call is not None
    assert theirs.parts[0].function_call.args == args


def test_enums_become_their_string_values() -> None:
    theirs = types.Content(parts=[types.Part(executable_code=types.ExecutableCode(language=types.Language.PYTHON))])
    language = Content.from_genai(theirs).parts[0].executable_code
    assert language is not None
    assert type(language.language) is str


def test_on_the_wire_are_camel_case_keys_and_base64() -> None:
    content = Content(
        role="model", parts=[Part(text="hm", thought=True, thought_signature=b"\xff\xfe"), Part(inline_data=Blob(data=b"\xfb"))]
    )
    assert wire_content(content) == {
        "role": "model",
        "parts": [{"text": "hm", "thought": True, "thoughtSignature": "//4="}, {"inlineData": {"data": "+w=="}}],
    }


def test_only_ids_that_we_made_up_stay_off_the_wire() -> None:
    calls_made = [FunctionCall(id="call-1", name="f"), FunctionCall(id="theirs", name="f"), FunctionCall(name="f")]
    content = Content(role="model", parts=[Part(function_call=made) for made in calls_made])
    assert wire_content(content)["parts"] == [
        {"functionCall": {"name": "f"}},
        {"functionCall": {"id": "theirs", "name": "f"}},
        {"functionCall": {"name": "f"}},
    ]
    answers = [FunctionResponse(id="call-1", name="f", response={"ok": 1}), FunctionResponse(id="theirs", name="f")]
    assert wire_content(Content(parts=[Part(function_response=made) for made in answers]))["parts"] == [
        {"functionResponse": {"name": "f", "response": {"ok": 1}}},
        {"functionResponse": {"id": "theirs", "name": "f", "response": {}}},
    ]
    assert calls_made[0].id == "call-1"


def test_parts_that_say_nothing_stay_off_the_wire_but_lone_signatures_go() -> None:
    content = Content(parts=[Part(), Part(text=""), Part(text="", thought=True), Part(thought_signature=b"s")])
    assert wire_content(content) == {"parts": [{"text": "", "thoughtSignature": "cw=="}]}


def test_each_service_is_spared_the_fields_that_only_the_other_knows() -> None:
    part = Part(
        function_call=FunctionCall(
            name="f", args={"willContinue": True}, will_continue=False, partial_args=[{"jsonPath": "$.a"}]
        ),
        part_metadata={"a": 1},
    )
    answered = Part(function_response=FunctionResponse(name="f", will_continue=True, parts=[{"mediaProcessing": {}}]))
    gemini = wire_content(Content(parts=[part, answered]))["parts"]
    vertex = wire_content(Content(parts=[part, answered]), vertex=True)["parts"]
    assert gemini[0] == {"functionCall": {"name": "f", "args": {"willContinue": True}}, "partMetadata": {"a": 1}}
    assert gemini[1]["functionResponse"]["willContinue"] is True
    assert "partMetadata" not in vertex[0]
    assert vertex[0]["functionCall"]["partialArgs"] == [{"jsonPath": "$.a"}]
    assert vertex[1] == {"functionResponse": {"name": "f", "response": {}, "parts": [{}]}}


@given(contents)
def test_what_goes_on_the_wire_is_plain_json_and_no_part_of_it_is_empty(content: Content) -> None:
    wire = wire_content(content)
    assert msgspec.json.decode(msgspec.json.encode(wire)) == wire
    assert all(set(part) - {"thought"} for part in wire["parts"])


def body_of(request: LlmRequest) -> dict[str, Any]:
    body = generate_config(request, model="m", vertex=False)["http_options"].extra_body
    assert isinstance(body, dict)
    return body


def test_a_conversation_that_does_not_end_with_the_user_is_given_a_last_word() -> None:
    spoken = [Content.of_text("hi"), Content.of_text("hello", role="model")]
    assert [content["role"] for content in body_of(LlmRequest(contents=spoken))["contents"]] == ["user", "model", "user"]
    assert [content["role"] for content in body_of(LlmRequest())["contents"]] == ["user"]
    assert [content["role"] for content in body_of(LlmRequest(contents=spoken[:1]))["contents"]] == ["user"]


def test_all_functions_share_one_tool_entry_beside_the_services_own_tools() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [FunctionDeclaration(name="f", description="does", parameters=schema), FunctionDeclaration(name="g")]
    request = LlmRequest(tools=tools, config={"tools": [{"google_search": {}}]})
    declared = [{"name": "f", "description": "does", "parametersJsonSchema": schema}, {"name": "g", "description": ""}]
    assert body_of(request)["tools"] == [{"googleSearch": {}}, {"functionDeclarations": declared}]
    assert "tools" not in body_of(LlmRequest())


def test_a_setting_that_the_sdk_does_not_know_is_named() -> None:
    with pytest.raises(ModelConfigurationError, match=r"model 'm' .*'temperatur'"):
        generate_config(LlmRequest(config={"temperatur": 1}), model="m", vertex=False)


def response(**fields: Any) -> types.GenerateContentResponse:
    return types.GenerateContentResponse.model_validate(fields)


def candidate(*candidate_parts: dict[str, Any], reason: str | None, message: str | None = None) -> types.GenerateContentResponse:
    content = {"role": "model", "parts": list(candidate_parts)} if candidate_parts else None
    return response(candidates=[{"content": content, "finishReason": reason, "finishMessage": message}])


def test_an_answer_keeps_its_content_reason_and_usage() -> None:
    got = from_response(
        response(
            candidates=[{"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP"}],
            usageMetadata={"promptTokenCount": 3, "totalTokenCount": 5},
        )
    )
    assert got.content == Content.of_text("hi", role="model")
    assert (got.finish_reason, got.error_code, got.error_message) == ("STOP", None, None)
    assert got.usage == Usage(prompt_token_count=3, total_token_count=5)


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "A_REASON_OF_TOMORROW"])
@pytest.mark.filterwarnings("ignore:A_REASON_OF_TOMORROW")
def test_stopping_without_an_answer_is_an_error(reason: str) -> None:
    got = from_response(candidate(reason=reason))
    assert (got.content, got.error_code, got.finish_reason) == (None, reason, reason)
    assert reason in str(got.error_message)
    assert from_response(candidate(reason=reason, message="why")).error_message == "why"


def test_thoughts_alone_are_an_error_only_when_the_model_was_stopped() -> None:
    thought = {"text": "hm", "thought": True}
    assert from_response(candidate(thought, reason="MAX_TOKENS")).error_code == "MAX_TOKENS"
    assert from_response(candidate(thought, reason="STOP")).error_code is None
    half = from_response(candidate(thought, {"text": "The answ"}, reason="MAX_TOKENS"))
    assert (half.error_code, half.finish_reason) == (None, "MAX_TOKENS")


def test_a_model_that_is_done_without_a_word_has_returned_nothing() -> None:
    for silent in (candidate(reason="STOP"), candidate({"text": ""}, reason="STOP")):
        got = from_response(silent)
        assert (got.content, got.finish_reason, got.error_code) == (None, "STOP", None)


def test_a_blocked_prompt_is_an_error_with_its_reason() -> None:
    got = from_response(response(promptFeedback={"blockReason": "SAFETY"}))
    assert (got.content, got.error_code, got.error_message) == (None, "SAFETY", "the prompt was blocked (SAFETY)")
    explained = from_response(response(promptFeedback={"blockReason": "OTHER", "blockReasonMessage": "no"}))
    assert explained.error_message == "no"


def test_the_sources_of_an_answer_ride_along() -> None:
    chunk = {"web": {"uri": "https://example.org", "title": "t"}}
    got = from_response(
        response(
            candidates=[
                {
                    "content": {"parts": [{"text": "hi"}]},
                    "finishReason": "STOP",
                    "groundingMetadata": {"groundingChunks": [chunk]},
                }
            ]
        )
    )
    assert (got.grounding_metadata, got.custom_metadata) == ({"groundingChunks": [chunk]}, None)
