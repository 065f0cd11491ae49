"""Requests as the JSON of Chat Completions. Pure: no SDK, no socket."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence

from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import FunctionDeclaration, LlmRequest
from runtime.models.openai.services import Service
from runtime.models.wire import (
    ChatTurn,
    Media,
    Piece,
    SaidText,
    Thought,
    ToolAnswer,
    ToolCall,
    base64_text,
    instruction_for,
    json_text,
    strict_schema,
    text_of,
    turns,
    without_form,
)

_SAME_NAMES = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")
"""Fields of GenerateContentConfig that have the same name there."""

_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")

_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

_CHOICES = {"AUTO": "auto", "ANY": "required", "VALIDATED": "auto", "NONE": "none"}


def request_body(request: LlmRequest, model: str, service: Service, *, stream: bool) -> JsonObject:
    """The body of one call.

    Args:
        model: the name as the service takes it.
        service: whose body it is.
        stream: the answer is to come in pieces.
    """
    schema, is_json = _answer_schema(request)
    form, instruction = _answer_form(schema, is_json, service)
    system = "\n\n".join(filter(None, [request.system_instruction, instruction]))
    body: JsonObject = {"model": model, "messages": messages(request, service, system), **_settings(request.config, service)}
    if form is not None:
        body["response_format"] = form
    if request.tools:
        body["tools"] = _tools(request.tools)
        if (choice := _tool_choice(request.config)) is not None:
            body["tool_choice"] = choice
    if stream:
        body["stream"] = True
        if service.tells_usage_when_asked:
            body["stream_options"] = {"include_usage": True}
    return body


def messages(request: LlmRequest, service: Service, system: str) -> list[JsonObject]:
    """The conversation, after a message with the system instruction if there is one."""
    call_id = _short_id if service.has_short_ids else str
    found: list[JsonObject] = [{"role": "system", "content": system}] if system else []
    for turn in turns(request.contents):
        if turn.is_model:
            found += _assistant(turn, service, call_id)
        else:
            found += _user(turn, call_id)
    return found


def _assistant(turn: ChatTurn, service: Service, call_id: Callable[[str], str]) -> Iterator[JsonObject]:
    text = "\n\n".join(piece.text for piece in turn.pieces if isinstance(piece, SaidText))
    calls = [_call(call, call_id) for call in turn.calls()]
    thoughts = "".join(piece.text for piece in turn.pieces if isinstance(piece, Thought))
    if text or calls:
        message: JsonObject = {"role": "assistant", "content": text or None}
        if thoughts and service.takes_thoughts:
            message["reasoning_content"] = thoughts
        if calls:
            message["tool_calls"] = calls
        yield message


def _call(call: ToolCall, call_id: Callable[[str], str]) -> JsonObject:
    return {
        "id": call_id(call.id),
        "type": "function",
        "function": {"name": call.name, "arguments": json_text(call.args)},
    }


def _user(turn: ChatTurn, call_id: Callable[[str], str]) -> Iterator[JsonObject]:
    """The answers as messages of their own; then what the user said, with the data of the answers."""
    said: list[Piece] = []
    for piece in turn.pieces:
        if isinstance(piece, ToolAnswer):
            yield {"role": "tool", "tool_call_id": call_id(piece.id), "content": json_text(piece.response)}
            if piece.media:
                said += [SaidText(f"What the tool {piece.name} returned besides:"), *piece.media]
        else:
            said.append(piece)
    parts = [_part(piece) for piece in said if isinstance(piece, SaidText | Media)]
    if parts and all(part["type"] == "text" for part in parts):
        yield {"role": "user", "content": "\n\n".join(part["text"] for part in parts)}
    elif parts:
        yield {"role": "user", "content": parts}


def _part(piece: SaidText | Media) -> JsonObject:
    if isinstance(piece, SaidText):
        return {"type": "text", "text": piece.text}
    url = piece.uri if piece.data is None else f"data:{piece.mime_type};base64,{base64_text(piece.data)}"
    if piece.mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if piece.data is not None and piece.mime_type in _SOUNDS:
        return {"type": "input_audio", "input_audio": {"data": base64_text(piece.data), "format": _SOUNDS[piece.mime_type]}}
    if piece.data is not None and piece.mime_type == "application/pdf":
        return {"type": "file", "file": {"filename": piece.name or "file.pdf", "file_data": url}}
    if piece.data is not None and piece.mime_type.startswith("text/"):
        return {"type": "text", "text": text_of(piece)}
    return {"type": "text", "text": without_form(piece)}


def _short_id(call_id: str) -> str:
    """The same nine letters for the same id."""
    return call_id if _SHORT_ID.fullmatch(call_id) else hashlib.sha256(call_id.encode()).hexdigest()[:9]


def _settings(config: JsonObject, service: Service) -> JsonObject:
    """The settings of the agent that the service has, too. Settings of Gemini alone are left out."""
    found: JsonObject = {name: config[name] for name in _SAME_NAMES if config.get(name) is not None}
    if config.get("max_output_tokens") is not None:
        found[service.max_tokens] = config["max_output_tokens"]
    if config.get("stop_sequences"):
        found["stop"] = list(config["stop_sequences"])
    level = (config.get("thinking_config") or {}).get("thinking_level")
    if level is not None:
        found["reasoning_effort"] = str(level).lower()
    return found


def _tools(tools: Sequence[FunctionDeclaration]) -> list[JsonObject]:
    nothing: JsonObject = {"type": "object", "properties": {}}
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters or nothing},
        }
        for tool in tools
    ]


def _tool_choice(config: JsonObject) -> JsonValue:
    calling = (config.get("tool_config") or {}).get("function_calling_config") or {}
    names = list(calling.get("allowed_function_names") or [])
    if calling.get("mode") == "ANY" and len(names) == 1:
        return {"type": "function", "function": {"name": names[0]}}
    return _CHOICES.get(str(calling.get("mode")))


def _answer_schema(request: LlmRequest) -> tuple[JsonObject | None, bool]:
    """The JSON schema of the answer, if it has one; and whether the answer is JSON."""
    config = request.config
    schema = request.output_schema or config.get("response_json_schema")
    return schema, schema is not None or config.get("response_mime_type") == "application/json"


def _answer_form(schema: JsonObject | None, is_json: bool, service: Service) -> tuple[JsonObject | None, str]:
    """The form of the answer as the service's setting, and what the model has to be told besides."""
    if schema is None:
        return ({"type": "json_object"} if is_json else None), ""
    strict = strict_schema(schema)
    if service.takes_schemas and schema.get("type") == "object":
        form = {"name": "answer", "schema": strict or schema, "strict": strict is not None}
        return {"type": "json_schema", "json_schema": form}, ""
    # A list or a number cannot be bound to, and "JSON" would mean an object.
    form_of_objects: JsonObject | None = {"type": "json_object"} if schema.get("type") == "object" else None
    return form_of_objects, instruction_for(json_text(schema))
