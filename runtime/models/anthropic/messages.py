"""Requests as the JSON of Anthropic's Messages API. Pure: no SDK, no socket."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import FunctionDeclaration, LlmRequest
from runtime.models.wire import (
    NUDGE,
    Media,
    Piece,
    SaidText,
    Thought,
    ToolAnswer,
    ToolCall,
    anthropic_redacted,
    anthropic_signature,
    base64_text,
    instruction_for,
    json_text,
    strict_schema,
    text_of,
    turns,
    without_form,
)

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")

_CHOICES = {"AUTO": "auto", "ANY": "any", "VALIDATED": "auto", "NONE": "none"}

_EFFORTS = {"MINIMAL": "low", "LOW": "low", "MEDIUM": "medium", "HIGH": "high"}


def request_body(request: LlmRequest, model: str, *, max_tokens: int, cache: str | None) -> JsonObject:
    """The body of one call, which asks for a stream.

    Args:
        model: the name as the service takes it.
        max_tokens: the greatest length of an answer, thinking not counted, unless the agent's configuration says another one.
        cache: how long what comes before the newest message is kept in the service's cache: "5m" or "1h"; None: not at all.
    """
    config = request.config
    schema = request.output_schema or config.get("response_json_schema")
    strict = strict_schema(schema) if schema is not None else None
    told = instruction_for(json_text(schema)) if schema is not None and strict is None else ""
    thinking, effort, budget = _thinking(config)
    body: JsonObject = {
        "model": model,
        "max_tokens": (config.get("max_output_tokens") or max_tokens) + budget,
        "messages": messages(request),
        "stream": True,
        **_settings(config),
    }
    if thinking is not None:
        body["thinking"] = thinking
    if system := "\n\n".join(filter(None, [request.system_instruction, told])):
        body["system"] = [{"type": "text", "text": system}]
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if (choice := _tool_choice(config)) is not None:
            body["tool_choice"] = choice
    output: JsonObject = {"effort": effort} if effort is not None else {}
    if strict is not None:
        output["format"] = {"type": "json_schema", "schema": strict}
    if output:
        body["output_config"] = output
    if cache is not None:
        _mark(body, {"type": "ephemeral"} if cache == "5m" else {"type": "ephemeral", "ttl": cache})
    return body


def messages(request: LlmRequest) -> list[JsonObject]:
    """The conversation. A turn of thoughts alone that are another service's has nothing to say here, and is left out."""
    found: list[JsonObject] = []
    for turn in turns(request.contents):
        blocks = list(_assistant(turn.pieces)) if turn.is_model else list(_user(turn.pieces))
        if blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            blocks.append({"type": "text", "text": "…"})  # a message may not end with a thought
        if blocks:
            found.append({"role": "assistant" if turn.is_model else "user", "content": blocks})
    return found or [{"role": "user", "content": [{"type": "text", "text": NUDGE}]}]


def _assistant(pieces: Iterable[Piece]) -> Iterator[JsonObject]:
    thought = ""
    for piece in pieces:
        if isinstance(piece, Thought):
            # A signature comes in a part of its own, behind the thought that it signs.
            thought += piece.text
            if (hidden := anthropic_redacted(piece.signature)) is not None:
                yield {"type": "redacted_thinking", "data": hidden}
            elif (signature := anthropic_signature(piece.signature)) is not None:
                yield {"type": "thinking", "thinking": thought, "signature": signature}
            if piece.signature is not None:
                thought = ""
            continue
        thought = ""
        if isinstance(piece, SaidText):
            yield {"type": "text", "text": piece.text}
        elif isinstance(piece, ToolCall):
            yield {"type": "tool_use", "id": _id(piece.id), "name": piece.name, "input": piece.args}


def _user(pieces: Iterable[Piece]) -> Iterator[JsonObject]:
    for piece in pieces:
        if isinstance(piece, SaidText):
            yield {"type": "text", "text": piece.text}
        elif isinstance(piece, Media):
            yield _media(piece)
        elif isinstance(piece, ToolAnswer):
            said: list[JsonObject] = [{"type": "text", "text": json_text(piece.response)}]
            result: JsonObject = {"type": "tool_result", "tool_use_id": _id(piece.id)}
            result["content"] = [*said, *map(_media, piece.media)] if piece.media else said[0]["text"]
            if "error" in piece.response:
                result["is_error"] = True
            yield result


def _media(media: Media) -> JsonObject:
    source: JsonObject
    if media.data is not None:
        source = {"type": "base64", "media_type": media.mime_type, "data": base64_text(media.data)}
    else:
        source = {"type": "url", "url": media.uri}
    is_there = media.data is not None or (media.uri or "").startswith(("https://", "http://"))
    if is_there and media.mime_type in _IMAGES:
        return {"type": "image", "source": source}
    if is_there and media.mime_type == "application/pdf":
        return {"type": "document", "source": source}
    if media.data is not None and media.mime_type.startswith("text/"):
        return {"type": "text", "text": text_of(media)}
    return {"type": "text", "text": without_form(media)}


def _id(call_id: str) -> str:
    """The id, or the same letters for the same id where the service would not take it."""
    return call_id if _ID.fullmatch(call_id) else f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:32]}"


def _tool(tool: FunctionDeclaration) -> JsonObject:
    schema = tool.parameters or {"type": "object", "properties": {}}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _settings(config: JsonObject) -> JsonObject:
    """The settings of the agent that the service has, too. Settings of Gemini alone are left out."""
    found: JsonObject = {name: config[name] for name in ("temperature", "top_p") if config.get(name) is not None}
    if config.get("top_k") is not None:
        found["top_k"] = int(config["top_k"])
    if config.get("stop_sequences"):
        found["stop_sequences"] = list(config["stop_sequences"])
    return found


def _thinking(config: JsonObject) -> tuple[JsonObject | None, str | None, int]:
    """Three settings of thinking: its kind, the effort, and the tokens that it needs besides the answer."""
    given = config.get("thinking_config") or {}
    level, budget = given.get("thinking_level"), given.get("thinking_budget")
    if level is not None:
        return {"type": "adaptive"}, _EFFORTS.get(str(level).upper(), str(level).lower()), 0
    if budget is None:
        return None, None, 0
    if budget > 0:
        return {"type": "enabled", "budget_tokens": budget}, None, budget
    return {"type": "adaptive" if budget < 0 else "disabled"}, None, 0


def _tool_choice(config: JsonObject) -> JsonValue:
    calling = (config.get("tool_config") or {}).get("function_calling_config") or {}
    names: Sequence[str] = list(calling.get("allowed_function_names") or [])
    if calling.get("mode") == "ANY" and len(names) == 1:
        return {"type": "tool", "name": names[0]}
    choice = _CHOICES.get(str(calling.get("mode")))
    return {"type": choice} if choice is not None else None


def _mark(body: JsonObject, mark: JsonObject) -> None:
    """Mark the ends of the tools, of the system instruction and of the conversation as places up to which the service caches."""
    for blocks in (body.get("tools"), body.get("system"), body["messages"][-1]["content"]):
        if blocks:
            blocks[-1] = {**blocks[-1], "cache_control": mark}
