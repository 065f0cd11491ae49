"""Which messages a turn can start with, how their data leaves the log (semantics.md section 2), and which answers fit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from actors.errors import InvalidMessageError
from actors.messages.content import Content, Part, content_flaw
from actors.messages.event import USER
from actors.messages.json_types import JsonMapping, JsonValue
from actors.rules.checks import questions


def checked(content: Content, *, may_be_empty: bool = False) -> Content:
    """The message with the role `user`.

    Args:
        may_be_empty: an empty text is a message, too: a graph may need no words to begin.

    Raises:
        InvalidMessageError: it has no parts or only empty ones, calls a function, has a function response without the id of its
            call, or holds a value that is no JSON where JSON has to be,
            or an answer to a question about a budget that is none.
    """
    if content.is_empty() and not (may_be_empty and any(part.text is not None for part in content.parts)):
        raise InvalidMessageError("message has no parts: give at least one with text, data or a function response")
    if (wrong := content_flaw(content)) is not None:
        raise InvalidMessageError(f"message cannot be sent: {wrong}")
    answers = False
    for part in content.parts:
        if part.function_call is not None:
            name = part.function_call.name
            raise InvalidMessageError(f"message has a function call ({name!r}): only agents call functions, users answer them")
        answers = answers or part.function_response is not None
    if not answers:
        return content if content.role == USER else Content(role=USER, parts=list(content.parts))
    for response in content.function_responses():
        if not response.id:
            raise InvalidMessageError(f"message has a function response for {response.name!r} without the id of its call")
    return Content(role=USER, parts=[questions.checked_answer(questions.of_clients(part)) for part in content.parts])


def has_blobs(content: Content) -> bool:
    """True when some part carries inline data."""
    return any(part.inline_data is not None for part in content.parts)


def artifact_name(id: str, index: int) -> str:
    """The artifact name for the data of the part at `index`. `id` is a message's invocation id, or the id of a model's event."""
    return f"artifact_{id}_{index}"


def without_blobs(content: Content, invocation_id: str) -> Content:
    """The message with a placeholder for each part of inline data."""
    parts = [
        placeholder(artifact_name(invocation_id, index)) if part.inline_data is not None else part
        for index, part in enumerate(content.parts)
    ]
    return Content(role=USER, parts=parts)


def placeholder(filename: str) -> Part:
    """The part that stands in the log instead of the data."""
    return Part(text=f"Uploaded file: {filename}. It is saved into artifacts")


def answers(content: Content) -> tuple[str, ...]:
    """Ids of the calls that the message has function responses for."""
    # No generator: each message is asked, and most answer nothing.
    ids: list[str] = []
    for part in content.parts:
        if part.function_response is not None and part.function_response.id:
            ids.append(part.function_response.id)
    return tuple(ids)


def misfit(answer: Content, questions: Mapping[str, JsonMapping]) -> str | None:
    """Why a message cannot be the answer to questions of nodes; None when it can.

    Args:
        questions: the arguments of the calls with which nodes have asked, by the ids of the calls.
    """
    for response in answer.function_responses():
        asked = questions.get(response.id or "")
        if asked is None:
            continue
        schema = asked.get("response_schema") or {}
        if wrong := flaw(fitted(answered(response.response), schema), schema):
            return f"the answer to {response.id!r} does not fit the response_schema of the question: {wrong}"
        if answer.text:
            return f"the message answers {response.id!r}, the question of a node, and has a text, which nobody would read"
    return None


def shapeless(words: str, schema: JsonMapping) -> str | None:
    """Why the user's words cannot be the input that a schema asks for; None when they may be.

    Only the outermost form is looked at: what stands in it pydantic may still make fit.
    """
    value = read_json(words)
    outermost = {name: schema[name] for name in ("type", "required") if name in schema}
    if schema.get("type") not in ("object", "array"):
        return None
    return flaw(value, outermost, "it")


def answered(response: JsonMapping) -> JsonValue:
    """The value of a function response: what stands alone under `result`, and what a text has as JSON."""
    value: JsonValue = response["result"] if set(response) == {"result"} else dict(response)
    return read_json(value) if isinstance(value, str) else value


def read_json(text: str) -> JsonValue:
    """A text as the JSON that it is; the text itself, if it is none."""
    try:
        parsed: JsonValue = json.loads(text)
    except ValueError:
        return text
    return parsed


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def fitted(value: JsonValue, schema: JsonMapping) -> JsonValue:
    """A value in the form that a JSON schema asks for: numbers of texts that are such, and defaults in place of what is missing.

    What does not fit stays as it is: see `flaw`.
    """
    if isinstance(value, str) and schema.get("type") in ("integer", "number", "boolean"):
        read = read_json(value)
        return read if flaw(read, schema) is None else value
    if isinstance(value, dict):
        asked: Mapping[str, JsonMapping] = schema.get("properties", {})
        given = {name: fitted(each, asked.get(name, {})) for name, each in value.items()}
        missing = {name: each["default"] for name, each in asked.items() if name not in value and "default" in each}
        return {**given, **missing}
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [fitted(each, schema["items"]) for each in value]
    return value


def flaw(value: JsonValue, schema: JsonMapping, where: str = "the answer") -> str | None:
    """The first reason why a value is not what a JSON schema asks for; None when it is.

    Looked at are `type`, `enum`, `properties`, `required`, `items` and `anyOf`, which say what people answer.
    """
    choices: Sequence[JsonMapping] = schema.get("anyOf", ())
    if choices and all(flaw(value, choice, where) for choice in choices):
        return flaw(value, choices[0], where)
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is none of {schema['enum']}"
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _TYPES and not _is_of(kind, value):
        return f"{where} is not of type {kind}"
    return next(_inside(value, schema, where), None)


def _is_of(kind: str, value: JsonValue) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _inside(value: JsonValue, schema: JsonMapping, where: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{where} lacks {name!r}"
        for name, inner in schema.get("properties", {}).items():
            # A default need not be of the type.
            is_default = name in value and "default" in inner and value[name] == inner["default"]
            if name in value and not is_default and (wrong := flaw(value[name], inner, f"{name!r} of {where}")):
                yield wrong
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for each in value:
            if wrong := flaw(each, schema["items"], f"an item of {where}"):
                yield wrong
