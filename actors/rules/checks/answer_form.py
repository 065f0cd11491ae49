"""Whether an answer of the user has the form that was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from actors.messages.content import Content
from actors.messages.json_types import JsonMapping, JsonValue


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
