"""Services of other makers for tests: Chat Completions and Anthropic's Messages over real sockets on 127.0.0.1, from a script.

They are `GeminiServer`s that speak another protocol: the same scripts, gates and failures. A reply is a dictionary: the whole
answer of Chat Completions, or of Messages. Where a stream is asked for, it is sent in as many pieces as it has.
"""

from __future__ import annotations

import json
from typing import Any

from tests.support.servers.gemini_server import Failure, GeminiServer, Json, Request, Script


class ChatServer(GeminiServer):
    """A service that speaks Chat Completions. Its base URL ends with /v1."""

    end = b"data: [DONE]\n\n"

    def __init__(self, script: Script) -> None:
        super().__init__(script)

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def streams(self, request: Request) -> bool:
        return bool(request.body.get("stream"))

    def chunks_of(self, answer: Json) -> list[Json]:
        return chat_chunks(answer)

    def error_body(self, failure: Failure) -> bytes:
        return json.dumps({"error": {"message": failure.message, "type": "scripted", "code": None}}).encode()


class MessagesServer(GeminiServer):
    """A service that speaks Anthropic's Messages."""

    def streams(self, request: Request) -> bool:
        return bool(request.body.get("stream"))

    def chunks_of(self, answer: Json) -> list[Json]:
        return message_events(answer)

    def event(self, chunk: Json) -> bytes:
        return message_event(chunk)

    def error_body(self, failure: Failure) -> bytes:
        kinds = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
        kind = kinds.get(failure.status, "api_error")
        return json.dumps({"type": "error", "error": {"type": kind, "message": failure.message}}).encode()


def chat(
    content: str | None = None,
    *calls: tuple[str, Json],
    finish_reason: str | None = None,
    usage: Json | None = None,
    **message: Any,
) -> Json:
    """A whole answer of Chat Completions: its text, and its calls as names with arguments."""
    made = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for number, (name, args) in enumerate(calls)
    ]
    said: Json = {"role": "assistant", "content": content, **({"tool_calls": made} if made else {}), **message}
    choice = {"index": 0, "message": said, "finish_reason": finish_reason or ("tool_calls" if made else "stop")}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
        **({"usage": usage} if usage else {}),
    }


def chat_chunks(answer: Json, size: int = 3) -> list[Json]:
    """The answer as OpenAI streams it: texts and arguments in pieces of a few letters, calls by index, the usage at the end."""
    [choice] = answer["choices"]
    message = choice["message"]
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    for field in ("reasoning_content", "content", "refusal"):
        deltas += [{field: piece} for piece in pieces(message.get(field) or "", size)]
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        head = {"index": index, "id": call["id"], "type": "function", "function": {"name": function["name"], "arguments": ""}}
        deltas.append({"tool_calls": [head]})
        for piece in pieces(function["arguments"], size):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    common = {"id": answer["id"], "object": "chat.completion.chunk", "created": 1, "model": answer["model"]}
    found = [{**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    found.append({**common, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if "usage" in answer:
        found.append({**common, "choices": [], "usage": answer["usage"]})
    return found


def message(*blocks: Json, stop_reason: str | None = None, usage: Json | None = None) -> Json:
    """A whole answer of Messages."""
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": list(blocks),
        "stop_reason": stop_reason or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 5, "output_tokens": 3},
    }


def said(text: str) -> Json:
    """A block of text."""
    return {"type": "text", "text": text}


def thought(text: str, signature: str) -> Json:
    """A block of thinking."""
    return {"type": "thinking", "thinking": text, "signature": signature}


def use(name: str, args: Json, call_id: str = "toolu_1") -> Json:
    """A block that calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": args}


def message_events(answer: Json, size: int = 3) -> list[Json]:
    """The answer as Anthropic streams it."""
    usage = answer["usage"]
    start = {**answer, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    found: list[Json] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(answer["content"]):
        empty, deltas = _deltas(block, size)
        found.append({"type": "content_block_start", "index": index, "content_block": empty})
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    found.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output_tokens"]}})
    found.append({"type": "message_stop"})
    return found


def message_event(event: Json) -> bytes:
    """An event of Messages as it is sent."""
    return f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def _deltas(block: Json, size: int) -> tuple[Json, list[Json]]:
    """A block as it begins, and what is added to it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], size)]
        case "thinking":
            grown = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"], size)]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*grown, signed]
        case "tool_use":
            # The service sends nothing at all for a call without arguments.
            given = block["input"]
            written = given if isinstance(given, str) else json.dumps(given) if given else ""
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in pieces(written, size)
            ]
    return block, []


def pieces(text: str, size: int) -> list[str]:
    """A text cut after every few letters."""
    return [text[at : at + size] for at in range(0, len(text), size)]
