"""Conversations in the forms of other services, and back: whatever agents, tools and callbacks made of them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages.content import Blob, Content, ExecutableCode, FileData, FunctionCall, FunctionResponse, Part
from actors.messages.llm import FunctionDeclaration, LlmRequest, LlmResponse
from runtime.models.anthropic import answers as anthropic_answers
from runtime.models.anthropic import messages as anthropic
from runtime.models.genai_types import wire_content
from runtime.models.openai import answers as openai_answers
from runtime.models.openai import messages as openai
from runtime.models.openai.services import SERVICES, Service
from runtime.models.streaming import Aggregate
from runtime.models.wire import NUDGE, signed_by_anthropic, strict_schema
from tests.support.servers.chat_server import chat_chunks, message, message_events
from tests.support.tries import tries

OPENAI = SERVICES["openai"]
THOUGHTFUL = msgspec.structs.replace(OPENAI, takes_thoughts=True)

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1).filter(lambda text: text.strip())
signatures = st.from_regex(r"[A-Za-z0-9+/=]{1,12}", fullmatch=True)
names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(), values, max_size=3)


@st.composite
def tidy_conversations(draw: st.DrawFn, *, signed: bool) -> list[Content]:
    """What agents have when nothing odd happens: the user speaks, the model thinks, speaks and calls, all calls are answered."""
    contents = [Content.of_text(draw(words))]
    for turn in range(draw(st.integers(0, 3))):
        thought = draw(st.none() | words)
        parts = [] if thought is None else [Part(text=thought, thought=True)]
        if signed and parts:
            parts.append(Part(thought=True, thought_signature=signed_by_anthropic(draw(signatures))))
        if draw(st.booleans()):
            parts.append(Part(text=draw(words)))
        named = draw(st.lists(st.tuples(names, objects, objects), max_size=3))
        calls = [FunctionCall(id=f"id-{turn}-{n}", name=name, args=args) for n, (name, args, _) in enumerate(named)]
        if not calls and all(part.thought for part in parts):
            parts.append(Part(text=draw(words)))
        contents.append(Content(role="model", parts=[*parts, *(Part(function_call=call) for call in calls)]))
        given_back = [
            Part(function_response=FunctionResponse(id=call.id, name=call.name, response=answer))
            for call, (_, _, answer) in zip(calls, named, strict=True)
        ]
        contents.append(Content(role="user", parts=given_back or [Part(text=draw(words))]))
    return contents


@settings(max_examples=tries(60), deadline=None)
@given(tidy_conversations(signed=False))
def test_a_conversation_goes_to_chat_completions_and_comes_back(contents: list[Content]) -> None:
    sent = json.loads(json.dumps(openai.messages(LlmRequest(contents=contents), THOUGHTFUL, "")))
    assert from_chat(sent) == contents


@settings(max_examples=tries(60), deadline=None)
@given(tidy_conversations(signed=True))
def test_a_conversation_goes_to_messages_and_comes_back(contents: list[Content]) -> None:
    sent = json.loads(json.dumps(anthropic.messages(LlmRequest(contents=contents))))
    assert from_messages(sent) == contents


def joined(responses: list[LlmResponse | None]) -> Content:
    whole = Aggregate()
    for response in responses:
        if response is not None:
            whole.add(response)
    content = whole.response().content
    assert content is not None
    return content


def from_chat(sent: list[dict[str, Any]]) -> list[Content]:
    """The messages of Chat Completions as contents; what the assistant said goes through the reader of streams."""
    found: list[Content] = []
    called: dict[str, str] = {}
    for each in sent:
        if each["role"] == "assistant":
            called |= {call["id"]: call["function"]["name"] for call in each.get("tool_calls", ())}
            answer = {"id": "x", "model": "x", "choices": [{"message": each, "finish_reason": "stop"}]}
            reader = openai_answers.OpenAIAnswers("x")
            found.append(joined([*map(reader.add, chat_chunks(answer)), reader.end_answer()]))
        elif each["role"] == "tool":
            answered = FunctionResponse(
                id=each["tool_call_id"], name=called[each["tool_call_id"]], response=json.loads(each["content"])
            )
            part = Part(function_response=answered)
            if found[-1].role == "user":
                found[-1] = Content(role="user", parts=[*found[-1].parts, part])
            else:
                found.append(Content(role="user", parts=[part]))
        else:
            found.append(Content.of_text(each["content"]))
    return found


def from_messages(sent: list[dict[str, Any]]) -> list[Content]:
    """The same of Anthropic's Messages."""
    found: list[Content] = []
    called: dict[str, str] = {}
    for each in sent:
        if each["role"] == "assistant":
            called |= {block["id"]: block["name"] for block in each["content"] if block["type"] == "tool_use"}
            reader = anthropic_answers.AnthropicAnswers("x")
            found.append(joined([reader.add(event) for event in message_events(message(*each["content"]))]))
            continue
        parts = []
        for block in each["content"]:
            if block["type"] == "text":
                parts.append(Part(text=block["text"]))
            else:
                call_id = block["tool_use_id"]
                answered = FunctionResponse(id=call_id, name=called[call_id], response=json.loads(block["content"]))
                parts.append(Part(function_response=answered))
        found.append(Content(role="user", parts=parts))
    return found


ids = st.none() | st.sampled_from(["a", "b", "c", "call-ä"])
blobs = st.builds(
    Blob,
    data=st.binary(max_size=4),
    mime_type=st.none() | st.sampled_from(["image/png", "audio/wav", "application/pdf", "text/plain", "video/mp4"]),
)
any_parts = st.one_of(
    st.builds(Part, text=st.none() | st.text(max_size=5), thought=st.none() | st.booleans()),
    st.builds(
        Part, thought=st.just(True), thought_signature=st.sampled_from([b"gemini", b"anthropic:x", b"anthropic-redacted:y"])
    ),
    st.builds(Part, function_call=st.builds(FunctionCall, id=ids, name=st.sampled_from(["f", "g"]), args=objects)),
    st.builds(Part, function_response=st.builds(FunctionResponse, id=ids, name=st.sampled_from(["f", "g"]), response=objects)),
    st.builds(Part, inline_data=blobs),
    st.builds(Part, file_data=st.builds(FileData, file_uri=st.just("gs://x"), mime_type=st.none() | st.just("image/png"))),
    st.builds(Part, executable_code=st.builds(ExecutableCode, code=st.text(max_size=5))),
)
any_contents = st.lists(
    st.builds(Content, role=st.sampled_from(["user", "model", None]), parts=st.lists(any_parts, max_size=4)), max_size=6
)


@settings(max_examples=tries(60), deadline=None)
@given(any_contents, st.sampled_from([OPENAI, THOUGHTFUL, SERVICES["mistral"]]))
def test_whatever_the_conversation_chat_completions_take_it(contents: list[Content], service: Service) -> None:
    sent = json.loads(json.dumps(openai.messages(LlmRequest(contents=contents), service, "")))
    assert sent[-1]["role"] != "assistant"
    wanted: list[str] = []
    for each in sent:
        if each["role"] == "tool":
            assert each["tool_call_id"] in wanted
            wanted.remove(each["tool_call_id"])
            continue
        assert wanted == []
        assert each.get("content") or each.get("tool_calls")
        wanted = [call["id"] for call in each.get("tool_calls", ())]
        if service.has_short_ids:
            assert all(len(call_id) == 9 and call_id.isalnum() for call_id in wanted)
    assert wanted == []


@settings(max_examples=tries(60), deadline=None)
@given(any_contents)
def test_whatever_the_conversation_messages_take_it(contents: list[Content]) -> None:
    sent = json.loads(json.dumps(anthropic.messages(LlmRequest(contents=contents))))
    assert (sent[0]["role"], sent[-1]["role"]) == ("user", "user")
    wanted: list[str] = []
    for each in sent:
        kinds = [block["type"] for block in each["content"]]
        assert kinds
        answered = [block["tool_use_id"] for block in each["content"] if block["type"] == "tool_result"]
        assert answered == wanted
        assert kinds[: len(answered)] == ["tool_result"] * len(answered)
        assert all(block["text"].strip() for block in each["content"] if block["type"] == "text")
        wanted = [block["id"] for block in each["content"] if block["type"] == "tool_use"]
        assert kinds[-1] not in ("thinking", "redacted_thinking")
    assert wanted == []


@settings(max_examples=tries(60), deadline=None)
@given(any_contents)
def test_gemini_gets_no_signature_of_another_service(contents: list[Content]) -> None:
    assert "YW50aHJvcGlj" not in json.dumps([wire_content(content) for content in contents])  # "anthropic" in base64


def test_data_goes_in_the_forms_that_a_service_has_and_else_in_words() -> None:
    parts = [
        Part(inline_data=Blob(data=b"x", mime_type=kind)) for kind in ("image/png", "audio/wav", "application/pdf", "video/mp4")
    ]
    answer = FunctionResponse(id="a", name="f", parts=[{"inlineData": {"mimeType": "image/png", "data": "eA=="}}])
    contents = [
        Content(role="user", parts=parts),
        Content(role="model", parts=[Part(function_call=FunctionCall(id="a", name="f"))]),
        Content(role="user", parts=[Part(function_response=answer)]),
    ]
    asked, _, tool, besides = openai.messages(LlmRequest(contents=contents), OPENAI, "")
    assert [part["type"] for part in asked["content"]] == ["image_url", "input_audio", "file", "text"]
    assert "video/mp4" in asked["content"][-1]["text"]
    assert (tool["role"], besides["content"][1]["image_url"]["url"]) == ("tool", "data:image/png;base64,eA==")
    asked, _, result = anthropic.messages(LlmRequest(contents=contents))
    assert [block["type"] for block in asked["content"]] == ["image", "text", "document", "text"]
    assert [block["type"] for block in result["content"][0]["content"]] == ["text", "image"]
    assert anthropic.messages(LlmRequest()) == [{"role": "user", "content": [{"type": "text", "text": NUDGE}]}]


def test_settings_have_the_names_that_a_service_knows() -> None:
    config = {
        "temperature": 0.5,
        "max_output_tokens": 9,
        "stop_sequences": ["."],
        "safety_settings": [{}],
        "thinking_config": {"thinking_level": "LOW"},
        "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
    }
    request = LlmRequest(config=config, tools=[FunctionDeclaration(name="f")])
    body = openai.request_body(request, "m", OPENAI, stream=False)
    assert {key: body[key] for key in body if key not in ("messages", "tools")} == {
        "model": "m",
        "temperature": 0.5,
        "max_completion_tokens": 9,
        "stop": ["."],
        "reasoning_effort": "low",
        "tool_choice": {"type": "function", "function": {"name": "f"}},
    }
    assert openai.request_body(request, "m", SERVICES["groq"], stream=True)["max_tokens"] == 9
    body = anthropic.request_body(request, "m", max_tokens=99, cache=None)
    assert (body["max_tokens"], body["stop_sequences"], body["tool_choice"]) == (9, ["."], {"type": "tool", "name": "f"})


LATE = {"type": "object", "properties": {"late": {"type": "boolean"}}}


@pytest.mark.parametrize(
    ("service", "schema", "form", "told"),
    [
        (OPENAI, LATE, "json_schema", False),
        (SERVICES["deepseek"], LATE, "json_object", True),
        (OPENAI, {"type": "array", "items": {"type": "integer"}}, None, True),
        (OPENAI, {"type": "object", "additionalProperties": {"type": "integer"}}, "json_schema", False),
    ],
)
def test_an_answer_is_bound_to_a_schema_as_far_as_the_service_can(
    service: Service, schema: dict[str, Any], form: str | None, told: bool
) -> None:
    body = openai.request_body(LlmRequest(output_schema=schema), "m", service, stream=False)
    assert body.get("response_format", {}).get("type") == form
    assert (json.dumps(schema, separators=(",", ":")) in body["messages"][0]["content"]) is told


def test_a_strict_schema_requires_all_and_refuses_more_and_stays_what_it_was() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}}
    schema: dict[str, Any] = {
        "type": "object",
        "$defs": {"Inner": inner},
        "properties": {"a": {"$ref": "#/$defs/Inner"}, "b": {"$ref": "#/$defs/Inner", "description": "second"}},
    }
    before = json.dumps(schema)
    made = strict_schema(schema)
    strict_inner = {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert made == {
        "type": "object",
        "$defs": {"Inner": strict_inner},
        "properties": {"a": {"$ref": "#/$defs/Inner"}, "b": {**strict_inner, "description": "second"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert json.dumps(schema) == before
    assert strict_schema({"type": "object", "properties": {"a": {}}}) is None
    assert strict_schema({"type": "object"}) is None
