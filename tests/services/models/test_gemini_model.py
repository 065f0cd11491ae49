"""The Gemini model through the unmodified google-genai client, against a real server on this machine."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from actors.errors import ModelConfigurationError, ModelError, ModelResponseError, ModelServiceError
from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import Usage
from actors.messages.llm import FunctionDeclaration, LlmRequest, LlmResponse
from runtime.models.gemini import Gemini
from tests.support.models.model_calls import HELLO, streamed, whole
from tests.support.servers.gemini_server import Failure, Gate, GeminiServer, HangUp, Json, Raw, Stream, answer, call, text

pytestmark = pytest.mark.sampled(2, of="module")

NAME = "gemini-2.5-flash"
SETTINGS = [
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_ENTERPRISE",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_APPLICATION_CREDENTIALS",
]

SERVER = GeminiServer
Serve = Callable[..., GeminiServer]
Make = Callable[..., Gemini]


def model_of(server: GeminiServer, **settings: Any) -> Gemini:
    return Gemini(model=NAME, base_url=server.url, **settings)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in SETTINGS:
        monkeypatch.delenv(variable, raising=False)


def chunk(*parts: Json) -> Json:
    return answer(*parts, finish_reason=None)


async def test_an_answer_comes_back_with_its_reason_and_usage(serve: Serve, make: Make) -> None:
    server = serve(text("hi", usage={"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4}))
    response = await whole(make(server, timeout_s=7.5))
    assert response == LlmResponse(
        content=Content.of_text("hi", role="model"),
        finish_reason="STOP",
        usage=Usage(prompt_token_count=3, candidates_token_count=1, total_token_count=4),
    )
    assert server.requests[0].path.endswith(f"/models/{NAME}:generateContent")
    assert server.requests[0].headers["x-goog-api-key"] == "key-of-the-test"
    assert server.requests[0].headers["x-server-timeout"] == "8"


@pytest.mark.parametrize("stream", [False, True])
async def test_the_whole_request_reaches_the_service(serve: Serve, make: Make, stream: bool) -> None:
    server = serve(text("{}"))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    request = LlmRequest(
        model="gemini-of-the-request",
        contents=[
            Content.of_text("weather?"),
            Content(
                role="model",
                parts=[
                    Part(text="hm", thought=True),
                    Part(function_call=FunctionCall(id="call-1", name="look", args={"city": "Rome"}), thought_signature=b"\xff"),
                    Part(function_call=FunctionCall(id="theirs", name="look")),
                ],
            ),
            Content(role="user", parts=[Part(function_response=FunctionResponse(id="call-1", name="look", response={"t": 30}))]),
        ],
        tools=[FunctionDeclaration(name="look", description="out of the window", parameters=schema)],
        config={
            "system_instruction": "be brief",
            "temperature": 0.5,
            "max_output_tokens": 99,
            "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
            "http_options": {"headers": {"x-of-the-request": "yes"}},
        },
        output_schema=schema,
    )
    assert [_ async for _ in make(server).generate(request, stream=stream)]
    [sent] = server.requests
    assert sent.body == {
        "contents": [
            {"role": "user", "parts": [{"text": "weather?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"functionCall": {"name": "look", "args": {"city": "Rome"}}, "thoughtSignature": "/w=="},
                    {"functionCall": {"id": "theirs", "name": "look"}},
                ],
            },
            {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"t": 30}}}]},
        ],
        "systemInstruction": {"role": "user", "parts": [{"text": "be brief"}]},
        "tools": [
            {"functionDeclarations": [{"name": "look", "description": "out of the window", "parametersJsonSchema": schema}]}
        ],
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 99,
            "responseMimeType": "application/json",
            "responseJsonSchema": schema,
        },
    }
    assert server.streams(sent) is stream
    assert sent.query == ({"alt": ["sse"]} if stream else {})
    assert "/models/gemini-of-the-request:" in sent.path
    assert sent.headers["x-of-the-request"] == "yes"


async def test_a_blocked_prompt_is_told_in_both_ways_of_asking(serve: Serve, make: Make) -> None:
    blocked: Json = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    model = make(serve(blocked, blocked))
    partials, last = await streamed(model)
    assert partials == []
    assert last == await whole(model)
    assert (last.error_code, last.content, last.usage) == ("SAFETY", None, Usage(prompt_token_count=3))


async def test_each_chunk_is_there_before_the_next_one_is_sent(serve: Serve, make: Make) -> None:
    gate = Gate()
    server = serve(Stream([chunk({"text": "one "}), chunk({"text": "two"}), answer()], gate=gate))
    async with aclosing(make(server).generate(HELLO, stream=True)) as responses:
        for words in ("one ", "two"):
            gate.release()
            assert await anext(responses) == LlmResponse(content=Content.of_text(words, role="model"), partial=True)
        gate.release()
        assert await anext(responses) == LlmResponse(content=Content.of_text("one two", role="model"), finish_reason="STOP")


async def test_a_stream_ends_with_thoughts_answer_and_calls_apart_and_in_order(serve: Serve, make: Make) -> None:
    signature = base64.b64encode(b"signed").decode()
    server = serve(
        Stream(
            [
                answer({"text": "let me ", "thought": True}, finish_reason=None, usage={"totalTokenCount": 1}),
                chunk({"text": "see", "thought": True}),
                chunk({"text": "I will "}),
                chunk({"text": "look."}),
                chunk({"functionCall": {"name": "look", "args": {"n": 1}}, "thoughtSignature": signature}),
                chunk({"functionCall": {"name": "look", "args": {"n": 2}}}),
                chunk({"text": "Done"}, {"text": "", "thoughtSignature": signature}),
                answer(usage={"totalTokenCount": 9}),
            ]
        )
    )
    partials, last = await streamed(make(server))
    assert len(partials) == 7
    assert last.content == Content(
        role="model",
        parts=[
            Part(text="let me see", thought=True),
            Part(text="I will look."),
            Part(function_call=FunctionCall(name="look", args={"n": 1}), thought_signature=b"signed"),
            Part(function_call=FunctionCall(name="look", args={"n": 2})),
            Part(text="Done"),
            Part(text="", thought_signature=b"signed"),
        ],
    )
    assert (last.finish_reason, last.error_code, last.usage) == ("STOP", None, Usage(total_token_count=9))


async def test_the_arguments_of_a_call_may_be_streamed(serve: Serve, make: Make) -> None:
    def growing(*pieces: Json, name: str | None = None, more: bool = True) -> Json:
        named: Json = {"name": name} if name else {}
        return chunk({"functionCall": {**named, "partialArgs": list(pieces), **({"willContinue": True} if more else {})}})

    server = serve(
        Stream(
            [
                growing(name="book"),
                growing({"jsonPath": "$.places[1].name", "stringValue": "Ro", "willContinue": True}),
                growing({"jsonPath": "$.places[1].name", "stringValue": "me"}, {"jsonPath": "$['n']", "numberValue": 2}),
                growing({"jsonPath": "$.later", "nullValue": "NULL_VALUE"}, more=False),
                call("other", {"a": 1}),
            ]
        )
    )
    _, last = await streamed(make(server))
    assert last.content is not None
    assert list(last.content.function_calls()) == [
        FunctionCall(name="book", args={"places": [None, {"name": "Rome"}], "n": 2, "later": None}),
        FunctionCall(name="other", args={"a": 1}),
    ]


@pytest.mark.parametrize("cut_off", [False, True])
async def test_a_stream_without_its_end_is_no_answer_and_not_asked_for_again(serve: Serve, make: Make, cut_off: bool) -> None:
    server = serve(Stream([chunk({"text": "half an"})], cut_off=cut_off), text("never asked for"))
    responses = make(server).generate(HELLO, stream=True)
    assert (await anext(responses)).partial
    with pytest.raises(ModelResponseError, match=f"model '{NAME}' gave no usable answer: the stream"):
        await anext(responses)
    assert len(server.requests) == 1


async def test_a_connection_lost_after_the_end_costs_nothing(serve: Serve, make: Make) -> None:
    server = serve(Stream([text("all of it")], cut_off=True))
    _, last = await streamed(make(server))
    assert last.content == Content.of_text("all of it", role="model")


async def test_a_stream_lost_before_its_first_chunk_is_asked_for_again(serve: Serve, make: Make) -> None:
    server = serve(HangUp(), Stream([], cut_off=True), Stream([]), text("at last"))
    _, last = await streamed(make(server))
    assert last.content == Content.of_text("at last", role="model")
    assert len(server.requests) == 4


async def test_an_error_in_the_middle_of_a_stream_ends_it(serve: Serve, make: Make) -> None:
    broken: Json = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    server = serve(Stream([chunk({"text": "half"}), broken]), text("never asked for"))
    with pytest.raises(ModelResponseError, match=r"broke off in the middle .*503"):
        await streamed(make(server))
    server = serve(Stream([broken]), text("as the first thing it is repeated"))
    _, last = await streamed(make(server))
    assert last.finish_reason == "STOP"


async def test_repetitions_come_to_an_end(serve: Serve, make: Make) -> None:
    server = serve(*[Failure(503, "overloaded")] * 9)
    with pytest.raises(ModelServiceError) as caught:
        await whole(make(server, retries=2))
    assert str(caught.value) == f"model '{NAME}': the service failed with status 503: UNAVAILABLE: overloaded"
    assert caught.value.code == 503
    assert len(server.requests) == 3


@pytest.mark.parametrize("advice", [{"headers": {"Retry-After": "0"}}, {"details": [{"retryDelay": "0s"}]}])
async def test_the_wait_that_the_service_asks_for_goes_before_our_own(
    serve: Serve, make: Make, monkeypatch: pytest.MonkeyPatch, advice: Json
) -> None:
    # Calls that were refused together spread over the backoff after it: this one is the first.
    monkeypatch.setattr("random.random", lambda: 0.0)
    server = serve(Failure(429, **advice), text("hi"))
    async with asyncio.timeout(30):
        assert (await whole(make(server, retry_initial_delay_s=60.0))).finish_reason == "STOP"


async def test_a_wait_beyond_all_patience_fails_at_once(serve: Serve, make: Make) -> None:
    server = serve(Failure(429, headers={"Retry-After": "86400"}), text("never asked for"))
    with pytest.raises(ModelServiceError, match="status 429"):
        await whole(make(server))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "garbage", [b"<html>not what you asked for</html>", b'{"candidates": 5}', b'{"candidates": [{"parts": 1}]}', b"{}", b""]
)
async def test_garbage_is_no_answer(serve: Serve, make: Make, garbage: bytes, stream: bool) -> None:
    model = make(serve(Raw(garbage)), retries=0)
    with pytest.raises(ModelError, match=f"model '{NAME}'"):
        assert [_ async for _ in model.generate(HELLO, stream=stream)] == []


async def test_an_error_page_is_told_in_short(serve: Serve, make: Make) -> None:
    with pytest.raises(ModelServiceError) as caught:
        await whole(make(serve(Failure(500, "x" * 9000)), retries=0))
    assert len(str(caught.value)) < 700


async def test_a_setting_that_only_vertex_has_is_refused_before_anything_is_sent(serve: Serve, make: Make) -> None:
    server = serve()
    request = LlmRequest(contents=HELLO.contents, config={"audio_timestamp": True})
    with pytest.raises(ModelConfigurationError, match="audio_timestamp"):
        await whole(make(server), request)
    assert server.requests == []


async def test_without_a_key_the_first_call_says_how_to_give_one() -> None:
    with pytest.raises(ModelConfigurationError, match=f"model '{NAME}' cannot be used: there is no API key: set GOOGLE_API_KEY"):
        await whole(Gemini(model=NAME))


async def test_key_and_endpoint_may_come_from_the_environment(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(text("hi"))
    monkeypatch.setenv("GEMINI_API_KEY", "key-of-the-environment")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    model = Gemini(model=NAME)
    await whole(model)
    assert server.requests[0].headers["x-goog-api-key"] == "key-of-the-environment"
    await model.aclose()


async def test_one_object_serves_many_calls_opens_again_and_has_copies_while_in_use() -> None:
    def asks(words: str) -> LlmRequest:
        return LlmRequest(contents=[Content.of_text(words)])

    with GeminiServer(lambda request: text(request.text.upper())) as server:
        model = Gemini(model=NAME, api_key="k", base_url=server.url)
        asked = [f"question {number}" for number in range(40)]
        responses = await asyncio.gather(*(whole(model, asks(words)) for words in asked))
        assert [response.content.text for response in responses if response.content] == [words.upper() for words in asked]
        copy = pickle.loads(pickle.dumps(model))
        for _ in range(2):
            await model.aclose()
        for each in (model, copy):
            assert (await whole(each, asks("two"))).content == Content.of_text("TWO", role="model")
            await each.aclose()


def test_one_object_serves_one_event_loop_after_another(serve: Serve) -> None:
    server = serve(text("one"), text("two"))
    model = Gemini(model=NAME, api_key="k", base_url=server.url)

    async def ask() -> str:
        try:
            response = await whole(model)
            return response.content.text if response.content else ""
        finally:
            await model.aclose()

    assert [asyncio.run(ask()), asyncio.run(ask())] == ["one", "two"]


VERTEX_HISTORY = LlmRequest(
    contents=[
        Content.of_text("hello"),
        Content(role="model", parts=[Part(function_call=FunctionCall(id="call-1", name="f"), part_metadata={"a": 1})]),
        Content(role="user", parts=[Part(function_response=FunctionResponse(id="call-1", name="f", response={"ok": True}))]),
    ],
    tools=[FunctionDeclaration(name="f", description="does")],
    config={"temperature": 0.0, "audio_timestamp": True},
)
VERTEX_BODY = {
    "contents": [
        {"role": "user", "parts": [{"text": "hello"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"ok": True}}}]},
    ],
    "tools": [{"functionDeclarations": [{"name": "f", "description": "does"}]}],
    "generationConfig": {"temperature": 0.0, "audioTimestamp": True},
}


@pytest.mark.parametrize("stream", [False, True])
async def test_vertex_with_a_key_gets_the_same_body(
    serve: Serve, make: Make, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    server = serve(text("hi"))
    *_, last = [response async for response in make(server).generate(VERTEX_HISTORY, stream=stream)]
    assert last.content == Content.of_text("hi", role="model")
    [sent] = server.requests
    verb = "streamGenerateContent" if stream else "generateContent"
    assert sent.path == f"/v1beta1/publishers/google/models/{NAME}:{verb}"
    assert sent.body == VERTEX_BODY


async def test_vertex_with_a_project_signs_in_by_its_service_account(
    serve: Serve, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = serve(text("hi"))
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "grove")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path, f"{server.url}/token")))
    await whole(make(server, api_key=None), VERTEX_HISTORY)
    [sent] = server.requests
    assert sent.path == f"/v1beta1/projects/grove/locations/europe-west4/publishers/google/models/{NAME}:generateContent"
    assert sent.headers["authorization"] == "Bearer token-of-the-test"
    assert server.tokens_issued == 1
    assert sent.body == VERTEX_BODY


def service_account(folder: Path, token_uri: str) -> Path:
    """A file of credentials whose tokens come from the test's own server."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    account = {
        "type": "service_account",
        "project_id": "grove",
        "client_email": "test@grove.example",
        "private_key": pem,
        "token_uri": token_uri,
    }
    path = folder / "service-account.json"
    path.write_text(json.dumps(account))
    return path
