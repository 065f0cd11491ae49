"""Requests and responses of models and tools, as attributes: only where the environment asks for it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable

import msgspec

from actors.messages.content import Content, Part
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm.model import LlmRequest, LlmResponse

logger = logging.getLogger(__name__)


VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that opts in, by the conventions for generative AI."""

_ON_SPANS = ("true", "1", "span_only", "span_and_event")


def is_captured() -> bool:
    """Whether the environment wants content on spans."""
    return os.environ.get(VARIABLE, "").strip().lower() in _ON_SPANS


def request_content(request: LlmRequest) -> dict[str, str]:
    """The request to a model."""
    told = {"gen_ai.input.messages": as_json([_message(content) for content in request.contents])}
    if request.system_instruction:
        told["gen_ai.system_instructions"] = as_json([{"type": "text", "content": request.system_instruction}])
    if request.tools:
        told["gen_ai.tool.definitions"] = as_json(
            [
                {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
                for tool in request.tools
            ]
        )
    return told


def response_content(response: LlmResponse) -> dict[str, str]:
    """The content of a model's response, as spans have it."""
    if response.content is None:
        return {}
    message = {**_message(response.content), "finish_reason": (response.finish_reason or "stop").lower()}
    return {"gen_ai.output.messages": as_json([message])}


def as_json(value: JsonValue) -> str:
    """A value as JSON; what has no JSON form as its text. It does not raise."""
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except Exception as error:
        # Arguments and results are users' objects.
        logger.debug("content has no JSON form: %s", error)
        return '""'


def _message(content: Content) -> JsonObject:
    role = {"model": "assistant", None: "user"}.get(content.role, content.role)
    return {"role": role, "parts": list(_parts(content.parts))}


def _parts(parts: Iterable[Part]) -> Iterable[JsonObject]:
    for part in parts:
        if part.text:
            yield {"type": "reasoning" if part.thought else "text", "content": part.text}
        if (call := part.function_call) is not None:
            yield {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args}
        if (response := part.function_response) is not None:
            yield {"type": "tool_call_response", "id": response.id, "response": response.response}
        if (blob := part.inline_data) is not None:
            # The data stays out: a span is no place for megabytes.
            yield {"type": "blob", "mime_type": blob.mime_type, "size": len(blob.data)}
        if (file := part.file_data) is not None:
            yield {"type": "uri", "mime_type": file.mime_type, "uri": file.file_uri}
