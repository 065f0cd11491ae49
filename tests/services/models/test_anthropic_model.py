"""Anthropic's models through the unmodified anthropic client, against a real server on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from actors.errors import ModelConfigurationError, ModelError, ModelServiceError
from actors.messages.content import Content, FunctionCall
from actors.messages.event import Usage
from actors.messages.llm import FunctionDeclaration, LlmRequest
from runtime.models.anthropic import AnthropicModel
from tests.support.models.model_calls import HELLO, streamed, whole
from tests.support.servers.chat_server import MessagesServer, message, message_events, said, thought, use
from tests.support.servers.gemini_server import Failure, HangUp, Raw, Stream

pytestmark = pytest.mark.sampled(2, of="module")

SIGNATURE = "EqQBCg+/=="

SERVER = MessagesServer
Serve = Callable[..., MessagesServer]
Make = Callable[..., AnthropicModel]


def model_of(server: MessagesServer, **settings: Any) -> AnthropicModel:
    return AnthropicModel("claude-of-the-test", base_url=server.url, **settings)


HIDDEN = {"type": "redacted_thinking", "data": "Emwh+/=="}
FULL = message(
    thought("Rome, is it?", SIGNATURE),
    HIDDEN,
    said("I look for it."),
    use("look", {"city": "Rome", "days": [1, 2]}),
    use("stop", {}, "toolu_2"),
    usage={
        "input_tokens": 3,
        "output_tokens": 9,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 2,
        "output_tokens_details": {"thinking_tokens": 4},
    },
)


async def test_thoughts_texts_and_calls_come_whole_and_go_back_with_their_signatures(serve: Serve, make: Make) -> None:
    server = serve(FULL, FULL, message(said("fine")))
    model = make(server)
    response = await whole(model)
    partials, last = await streamed(model)
    assert last == response
    assert "".join(partial.content.text for partial in partials if partial.content) == "I look for it."
    assert response.finish_reason == "STOP"
    assert response.usage == Usage(
        prompt_token_count=10,
        candidates_token_count=5,
        thoughts_token_count=4,
        cached_content_token_count=5,
        total_token_count=19,
    )
    assert response.content is not None
    assert list(response.content.function_calls()) == [
        FunctionCall(id="toolu_1", name="look", args={"city": "Rome", "days": [1, 2]}),
        FunctionCall(id="toolu_2", name="stop", args={}),
    ]
    stored = Content.from_json(response.content.to_json())
    await whole(model, LlmRequest(contents=[*HELLO.contents, stored]))
    asked, answered, results = server.requests[-1].body["messages"]
    assert answered["content"] == FULL["content"]
    assert [(block["type"], block["tool_use_id"]) for block in results["content"]] == [
        ("tool_result", "toolu_1"),
        ("tool_result", "toolu_2"),
    ]
    assert asked["content"] == [{"type": "text", "text": "hello"}]


async def test_the_request_marks_what_the_service_may_keep(serve: Serve, make: Make) -> None:
    server = serve(message(said("x")), message(said("x")), message(said("x")))
    tools = [FunctionDeclaration(name="a", description="first"), FunctionDeclaration(name="b", description="second")]
    request = LlmRequest(
        contents=[Content.of_text("hello")], tools=tools, config={"system_instruction": "be brief", "max_output_tokens": 99}
    )
    await whole(make(server), request)
    await whole(make(server, cache="1h"), request)
    await whole(make(server, cache=None), request)
    first, second, third = (sent.body for sent in server.requests)
    mark = {"type": "ephemeral"}
    assert [tool.get("cache_control") for tool in first["tools"]] == [None, mark]
    assert first["system"] == [{"type": "text", "text": "be brief", "cache_control": mark}]
    assert first["messages"][-1]["content"][-1]["cache_control"] == mark
    assert second["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert "cache_control" not in json.dumps(third)
    assert (first["max_tokens"], first["model"]) == (99, "claude-of-the-test")
    with pytest.raises(ModelConfigurationError, match="cache must be"):
        AnthropicModel("claude", cache="2h")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("thinking", "sent", "tokens"),
    [
        ({"thinking_budget": 2000}, {"type": "enabled", "budget_tokens": 2000}, 10_192),
        ({"thinking_budget": -1}, {"type": "adaptive"}, 8192),
        ({"thinking_budget": 0}, {"type": "disabled"}, 8192),
        ({"thinking_level": "HIGH"}, {"type": "adaptive"}, 8192),
    ],
)
async def test_how_a_model_is_to_think(serve: Serve, make: Make, thinking: object, sent: object, tokens: int) -> None:
    server = serve(message(said("x")))
    await whole(make(server), LlmRequest(contents=HELLO.contents, config={"thinking_config": thinking}))
    [request] = server.requests
    assert (request.body["thinking"], request.body["max_tokens"]) == (sent, tokens)
    assert request.body.get("output_config") == ({"effort": "high"} if thinking == {"thinking_level": "HIGH"} else None)


async def test_an_overloaded_service_is_asked_again_also_when_it_says_so_in_the_stream(serve: Serve, make: Make) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    start = message_events(message(said("x")))[0]
    server = serve(Failure(529), Failure(429), HangUp(), Stream([start, overloaded]), message(said("at last")))
    assert (await whole(make(server))).content == Content.of_text("at last", "model")
    assert len(server.requests) == 5


async def test_errors_that_come_in_a_stream_have_their_status(serve: Serve, make: Make) -> None:
    wrong = {"type": "error", "error": {"type": "invalid_request_error", "message": "no such thing"}}
    with pytest.raises(ModelServiceError, match="no such thing") as caught:
        await whole(make(serve(Stream([wrong]))))
    assert caught.value.code == 400


async def test_a_schema_binds_the_answer_or_stands_in_the_instruction(serve: Serve, make: Make) -> None:
    server = serve(message(said("{}")), message(said("[]")))
    verdict = {"type": "object", "properties": {"late": {"type": "boolean"}, "why": {"type": "string", "default": ""}}}
    await whole(make(server), LlmRequest(contents=HELLO.contents, output_schema=verdict))
    await whole(make(server), LlmRequest(contents=HELLO.contents, output_schema={"type": "array", "items": {"type": "integer"}}))
    first, second = (sent.body for sent in server.requests)
    assert first["output_config"]["format"]["schema"] == {
        "type": "object",
        "properties": {"late": {"type": "boolean"}, "why": {"type": "string"}},
        "required": ["late", "why"],
        "additionalProperties": False,
    }
    assert "output_config" not in second
    assert '{"type":"array","items":{"type":"integer"}}' in second["system"][0]["text"]


@pytest.mark.parametrize(
    "reply",
    [
        Raw(b"<html>", "text/html"),
        Raw(b"event: message_start\ndata: [1]\n\n", "text/event-stream"),
        Raw(b'event: content_block_delta\ndata: {"type": "content_block_delta", "delta": 3}\n\n', "text/event-stream"),
        Raw(b"event: message_start\ndata: nonsense\n\n", "text/event-stream"),
        Raw(b"", "text/event-stream"),
    ],
)
async def test_what_is_no_message_is_an_error_of_our_own(serve: Serve, make: Make, reply: Raw) -> None:
    with pytest.raises(ModelError, match="claude-of-the-test"):
        await whole(make(serve(reply), retries=0))
