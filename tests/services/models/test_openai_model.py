"""Models of Chat Completions through the unmodified openai client, against a real server on this machine."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from actors.errors import ModelConfigurationError, ModelError, ModelServiceError
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import Usage
from actors.messages.llm import LlmRequest, LlmResponse
from runtime.models.openai import OpenAIModel
from tests.support.models.model_calls import HELLO, streamed, whole
from tests.support.servers.chat_server import ChatServer, chat
from tests.support.servers.gemini_server import Failure, Json, Raw, Reply, Stream

TOKENS = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 4}}

SERVER = ChatServer
Serve = Callable[..., ChatServer]
Make = Callable[..., OpenAIModel]


def model_of(server: ChatServer, **settings: Any) -> OpenAIModel:
    return OpenAIModel("gpt-of-the-test", **{"base_url": server.base_url, **settings})


FULL = chat(
    "I look for it.", ("look", {"city": "Rome", "days": [1, 2]}), ("stop", {}), reasoning_content="Rome, is it?", usage=TOKENS
)
SAID = LlmResponse(
    content=Content(
        role="model",
        parts=[
            Part(text="Rome, is it?", thought=True),
            Part(text="I look for it."),
            Part(function_call=FunctionCall(id="call_0", name="look", args={"city": "Rome", "days": [1, 2]})),
            Part(function_call=FunctionCall(id="call_1", name="stop", args={})),
        ],
    ),
    finish_reason="STOP",
    usage=Usage(prompt_token_count=3, candidates_token_count=5, thoughts_token_count=4, total_token_count=12),
)


async def test_a_whole_answer_and_a_streamed_one_say_the_same(serve: Serve, make: Make) -> None:
    server = serve(FULL, FULL)
    model = make(server)
    assert await whole(model) == SAID
    partials, last = await streamed(model)
    assert last == SAID
    assert "".join(partial.content.text for partial in partials if partial.content) == "I look for it."
    assert len(partials) > 5
    assert [request.body.get("stream_options") for request in server.requests] == [None, {"include_usage": True}]
    assert server.requests[0].headers["authorization"] == "Bearer key-of-the-test"


async def test_once_asks_once_and_says_how_long_to_wait(serve: Serve, make: Make) -> None:
    server = serve(Failure(429, headers={"Retry-After": "7"}))
    with pytest.raises(ModelServiceError) as caught:
        await whole(make(server).once())
    assert (caught.value.code, caught.value.retry_after_s) == (429, 7.0)


def one_chunk(**delta: Any) -> Json:
    return {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def last_chunk(reason: str = "tool_calls") -> Json:
    return {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def fragment(call_id: str | None = None, name: str | None = None, arguments: Any = None, **more: Any) -> Json:
    return {**({"id": call_id} if call_id else {}), "function": {"name": name, "arguments": arguments}, **more}


@pytest.mark.parametrize(
    "fragments",
    [
        [fragment("a", "f", '{"x"', index=0), fragment("b", "g", "{}", index=1), fragment(None, None, ": 1}", index=0)],
        [fragment("a", "f", '{"x": 1}', index=0), fragment("b", "g", "{}", index=0)],
        [fragment("a", "f", '{"x": 1}'), fragment("b", "g", "")],
        [fragment("a", "f", '{"x"'), fragment(None, None, ": 1}"), fragment("b", "g", None)],
        [fragment("a", "f", {"x": 1}), fragment("b", "g", {})],
    ],
    ids=["by index", "one index for all", "without an index", "fragments without an index", "arguments as objects"],
)
async def test_calls_are_put_together_however_a_service_streams_them(serve: Serve, make: Make, fragments: list[Json]) -> None:
    server = serve(Stream([*(one_chunk(tool_calls=[each]) for each in fragments), last_chunk()]))
    _, last = await streamed(make(server))
    assert last.content is not None
    assert list(last.content.function_calls()) == [
        FunctionCall(id="a", name="f", args={"x": 1}),
        FunctionCall(id="b", name="g", args={}),
    ]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("reply", "reason", "code"),
    [
        (chat(None, refusal="I do not do that."), "STOP", "REFUSAL"),
        (chat("x", finish_reason="eos"), "EOS", None),
    ],
)
async def test_why_a_model_stopped(serve: Serve, make: Make, reply: Reply, reason: str, code: str | None, stream: bool) -> None:
    last = [response async for response in make(serve(reply)).generate(HELLO, stream=stream)][-1]
    assert (last.finish_reason, last.error_code) == (reason, code)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        Raw(b"<html>", "text/html"),
        Raw(b"[1]", "application/json"),
        Raw(b"{}", "application/json"),
        Raw(b'{"choices": 3}', "application/json"),
        Raw(b'data: {"choices": [{"delta": {"content": {}}}]}\n\ndata: [DONE]\n\n', "text/event-stream"),
        Raw(b'data: {"error": {"message": "out of luck"}}\n\n', "text/event-stream"),
        Raw(b"data: nonsense\n\n", "text/event-stream"),
        Raw(b"", "text/event-stream"),
    ],
)
async def test_what_is_no_chat_completion_is_an_error_of_our_own(serve: Serve, make: Make, reply: Raw, stream: bool) -> None:
    with pytest.raises(ModelError, match="gpt-of-the-test"):
        await streamed(make(serve(reply), retries=0)) if stream else await whole(make(serve(reply), retries=0))


async def test_names_say_which_service_is_asked_and_where_its_key_is(
    serve: Serve, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(chat("a"), chat("b"), chat("c"))
    for service in ("OPENROUTER", "OLLAMA"):
        monkeypatch.setenv(f"{service}_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENROUTER_API_KEY", "of-openrouter")
    router = make(server, base_url=None, api_key=None)
    named = (
        OpenAIModel("openrouter/meta/llama"),
        OpenAIModel("ollama/qwen3"),
        OpenAIModel("openai/gpt-oss", base_url=server.base_url),
    )
    for model in named:
        await whole(model)
        await model.aclose()
    assert [request.body["model"] for request in server.requests] == ["meta/llama", "qwen3", "openai/gpt-oss"]
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer of-openrouter", *["Bearer none"] * 2]
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelConfigurationError, match="set OPENAI_API_KEY where the agents run"):
        await whole(router)


async def test_headers_and_fields_of_its_own_go_with_each_call(serve: Serve, make: Make) -> None:
    server = serve(chat("x"))
    request = LlmRequest(
        contents=HELLO.contents, config={"http_options": {"headers": {"x-call": "1"}, "extra_body": {"verbosity": "low"}}}
    )
    await whole(make(server, headers={"x-model": "2"}, extra_body={"store": False}), request)
    [sent] = server.requests
    assert (sent.headers["x-call"], sent.headers["x-model"]) == ("1", "2")
    assert (sent.body["verbosity"], sent.body["store"]) == ("low", False)
    assert pickle.loads(pickle.dumps(make(server))).model == "gpt-of-the-test"
