"""Converts between this project's messages and google-genai's types.

Four conversions, all pure:

- `to_genai`: the same content in the SDK's form. `Content.from_genai`, which needs no SDK, is the way back.
- `wire_content`: the JSON object that the REST body wants, made without the SDK's models, which cost 0.23 ms a content.
- `generate_config`: everything else of a request, as the SDK's own configuration.
- `from_response`: the service's response as a model response, with an error code where it has no content to show.

Bytes are raw in the fields of messages, and base64 inside dictionaries that are passed on as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from google.genai import types
from pydantic import BaseModel, ValidationError

from actors.errors import ModelConfigurationError
from actors.messages.content import Content
from actors.messages.event import Usage
from actors.messages.json_types import JsonObject
from actors.messages.llm import FunctionDeclaration, LlmRequest, LlmResponse
from runtime.models.streaming import with_error_code
from runtime.models.wire import NUDGE, call_options, is_foreign_to_gemini, server_timeout

OWN_CALL_ID = "call-"
"""Ids of calls that came without one begin so; the service does not know them."""

_UNSIGNED = "skip_thought_signature_validator"
"""Google's documented signature of calls that its model has not made. It is not base64 of anything: it goes out as it is."""

_SIGNING = re.compile(r"gemini-(?:[3-9]|\d\d)|gemini-[a-z-]*latest")
"""Models, and aliases of models, that refuse calls without a signature: those since Gemini 3."""


def to_genai(content: Content) -> types.Content:
    """The SDK's form of our content.

    Raises:
        pydantic.ValidationError: a dictionary that passes through us is not what the SDK has in that place.
    """
    theirs = types.Content.model_validate_json(msgspec.json.encode(content))
    # JSON leaves out what is empty; programs read `args.items()` of a call without arguments.
    for part in theirs.parts or ():
        call, response = part.function_call, part.function_response
        if call is not None and call.args is None and not (call.partial_args or call.will_continue):
            call.args = {}
        if response is not None and response.response is None:
            response.response = {}
    return theirs


class _Refused(NamedTuple):
    """The keys that one of the two services rejects and the other takes, by the object that holds them."""

    part: frozenset[str]
    function_call: frozenset[str]
    function_response: frozenset[str]
    function_response_part: frozenset[str]


_NONE: frozenset[str] = frozenset()
_BY_GEMINI_API = _Refused(_NONE, frozenset({"partialArgs", "willContinue"}), _NONE, _NONE)
_BY_VERTEX = _Refused(
    frozenset({"toolCall", "toolResponse", "partMetadata"}),
    _NONE,
    frozenset({"willContinue"}),
    frozenset({"mediaProcessing"}),
)


def wire_content(content: Content, *, vertex: bool = False) -> JsonObject:
    """The content as a JSON object of the REST body: camelCase keys, bytes as base64.

    Left out are ids of our own (`call-…`), empty parts, and keys that the service rejects.

    Args:
        content: the content; it is not changed.
        vertex: for Vertex AI, which knows other fields than the Gemini API.

    Returns:
        A fresh dictionary with `parts`, which may be empty, and `role` if it is known.
    """
    wire: JsonObject = msgspec.to_builtins(_without_foreign_signatures(content))
    refused = _BY_VERTEX if vertex else _BY_GEMINI_API
    wire["parts"] = [part for part in wire.get("parts", ()) if _adapt(part, refused)]
    return wire


def _without_foreign_signatures(content: Content) -> Content:
    """The content without signatures of other services, which another model of the conversation has left in it."""
    if not any(part.thought_signature and is_foreign_to_gemini(part.thought_signature) for part in content.parts):
        return content
    parts = [
        msgspec.structs.replace(part, thought_signature=None)
        if part.thought_signature and is_foreign_to_gemini(part.thought_signature)
        else part
        for part in content.parts
    ]
    return msgspec.structs.replace(content, parts=parts)


def _adapt(part: JsonObject, refused: _Refused) -> bool:
    """Bring a part into the service's form, in place. False when nothing is left of it."""
    _drop(part, refused.part)
    if (call := part.get("functionCall")) is not None:
        _drop_own_id(call)
        _drop(call, refused.function_call)
        return True
    if (response := part.get("functionResponse")) is not None:
        _drop_own_id(response)
        _drop(response, refused.function_response)
        for piece in response.get("parts") or ():
            _drop(piece, refused.function_response_part)
        response.setdefault("response", {})  # required, even when a tool has returned nothing
        return True
    if part.get("text"):
        return True
    if part.keys() <= {"thoughtSignature", "thought", "text"}:
        part["text"] = ""  # a signature that came alone must go back in a part of its own, which needs some data
        return "thoughtSignature" in part
    return True


def _drop(wire: JsonObject, keys: frozenset[str]) -> None:
    for key in keys:
        wire.pop(key, None)


def _drop_own_id(wire: JsonObject) -> None:
    if wire.get("id", "").startswith(OWN_CALL_ID):
        del wire["id"]


def _wire_contents(contents: Sequence[Content], model: str, vertex: bool) -> Iterator[JsonObject]:
    """The conversation as the service takes it: no content is empty, the last is not the model's, and calls are signed."""
    # What was said before the newest message is taken without signatures.
    signed_from = _newest_message(contents) if _SIGNING.search(model) else len(contents)
    last: JsonObject = {}
    for index, content in enumerate(contents):
        wire = wire_content(content, vertex=vertex)
        if index > signed_from:
            _sign(wire)
        if wire["parts"]:
            yield (last := wire)
    if last.get("role", "model") == "model":
        yield {"role": "user", "parts": [{"text": NUDGE}]}


def _newest_message(contents: Sequence[Content]) -> int:
    """The index of the newest content of the user that is no response of tools; -1 without one."""
    said = (
        i for i in range(len(contents) - 1, -1, -1) if contents[i].role == "user" and not any(contents[i].function_responses())
    )
    return next(said, -1)


def _sign(wire: JsonObject) -> None:
    """Sign the first call of a content, in place, if its model has not: another service's, or a callback, has made it."""
    call = next((part for part in wire["parts"] if "functionCall" in part), None)
    if call is not None:
        call.setdefault("thoughtSignature", _UNSIGNED)


def generate_config(request: LlmRequest, *, model: str, vertex: bool) -> dict[str, Any]:
    """The configuration of one call of the SDK, which contains the conversation as JSON.

    It is a dictionary because the SDK makes a deep copy of a GenerateContentConfig, conversation included.

    Args:
        model: the model's name, for the error.
        vertex: for Vertex AI, which knows other fields than the Gemini API.

    Returns:
        Keyword arguments of `types.GenerateContentConfig`, of which `http_options.extra_body` holds contents and tools. It
        can serve several attempts.

    Raises:
        ModelConfigurationError: `request.config` does not fit GenerateContentConfig.
    """
    given = _validated({**request.config, **_settings_of(request)}, model)
    options: types.HttpOptions = given.get("http_options") or types.HttpOptions()
    body = {**(options.extra_body or {}), "contents": list(_wire_contents(request.contents, model, vertex))}
    if tools := [*_wire_tools(given.pop("tools", None) or ()), *_declared(request.tools)]:
        body["tools"] = tools
    headers = {**server_timeout(call_options(request.config).timeout_s), **(options.headers or {})}
    return {**given, "http_options": options.model_copy(update={"extra_body": body, "headers": headers, "timeout": None})}


def _settings_of(request: LlmRequest) -> JsonObject:
    """The request without its contents, by the SDK's names."""
    settings: JsonObject = {
        "automatic_function_calling": {"disable": True},
        "system_instruction": request.system_instruction or None,
    }
    if request.output_schema is not None:
        settings["response_json_schema"] = request.output_schema
        settings["response_mime_type"] = "application/json"
    return settings


def _declared(tools: Sequence[FunctionDeclaration]) -> Iterator[JsonObject]:
    """One tool entry that declares all functions, or no entry without functions."""
    if tools:
        yield {"functionDeclarations": [_declaration(tool) for tool in tools]}


def _declaration(tool: FunctionDeclaration) -> JsonObject:
    declaration: JsonObject = {"name": tool.name, "description": tool.description}
    return declaration if tool.parameters is None else {**declaration, "parametersJsonSchema": tool.parameters}


def _wire_tools(tools: Sequence[types.Tool]) -> Iterator[JsonObject]:
    """The service's own tools (search, code execution, …), which stand in the agent's configuration."""
    return (tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools)


def _validated(config: JsonObject, model: str) -> dict[str, Any]:
    try:
        checked = types.GenerateContentConfig(**config)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(step) for step in found["loc"])
        raise ModelConfigurationError(model, f"generate_content_config field {where!r}: {found['msg']}") from error
    return {name: getattr(checked, name) for name in checked.model_fields_set}


def from_response(response: types.GenerateContentResponse, *, is_whole: bool = False) -> LlmResponse:
    """The service's response as a model response.

    Args:
        response: a whole response, or one chunk of a stream.
        is_whole: the response came in one, so that one with a content is complete without a finish reason as well.

    Returns:
        The first candidate's content and finish reason, and the usage. Without content, `error_code` is the reason that the
        service gave for refusing the prompt or for stopping, and `error_message` its explanation. Stopping without content is
        no error when the reason is STOP.
    """
    usage = _usage(response.usage_metadata)
    if not response.candidates:
        feedback = response.prompt_feedback
        if feedback is None or feedback.block_reason is None:
            return LlmResponse(usage=usage)
        code = feedback.block_reason.value
        message = feedback.block_reason_message or f"the prompt was blocked ({code})"
        return LlmResponse(error_code=code, error_message=message, usage=usage)
    candidate = response.candidates[0]
    content = Content.from_genai(candidate.content) if candidate.content is not None else None
    content = None if content is None or content.is_empty() else content
    reason = candidate.finish_reason.value if candidate.finish_reason is not None else None
    return with_error_code(
        LlmResponse(
            content=content,
            finish_reason="STOP" if reason is None and is_whole and content is not None else reason,
            error_message=candidate.finish_message,
            usage=usage,
            grounding_metadata=_json(candidate.grounding_metadata),
            custom_metadata=_sources(candidate),
        )
    )


def _usage(metadata: types.GenerateContentResponseUsageMetadata | None) -> Usage | None:
    if metadata is None:
        return None
    return Usage(**{name: getattr(metadata, name) for name in Usage.__struct_fields__})


def _sources(candidate: types.Candidate) -> JsonObject | None:
    """The quotations of a text, and the pages that were read for it; camelCase keys."""
    found = {"citationMetadata": candidate.citation_metadata, "urlContextMetadata": candidate.url_context_metadata}
    return {key: _json(value) for key, value in found.items() if value} or None


def _json(value: BaseModel | None) -> JsonObject | None:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if value else None
