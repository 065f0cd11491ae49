"""JSON schemas in the strict form in which services bind their answers to them. Pure."""

from __future__ import annotations

from actors.messages.json_types import JsonObject, JsonValue

_NESTED = ("anyOf", "oneOf", "allOf", "prefixItems")


def strict_schema(schema: JsonObject) -> JsonObject | None:
    """The schema with all properties required and no others allowed.

    Args:
        schema: of an object; it is not changed.

    Returns:
        A copy; None when it cannot be strict: it is not of an object, or somewhere takes an object with any keys.
    """
    try:
        found = _strict(schema, schema, ())
    except _NotStrictError:
        return None
    return found if found.get("type") == "object" else None


def instruction_for(text: str) -> str:
    """The instruction to answer in the schema, in words, where a service has no such setting.

    Args:
        text: the schema as JSON.
    """
    return f"Answer only with JSON that fits this JSON schema, without any other text:\n{text}"


class _NotStrictError(Exception):
    """The schema takes objects with any keys."""


def _strict(schema: JsonValue, root: JsonObject, inside: tuple[str, ...]) -> JsonObject:
    if not isinstance(schema, dict):
        raise _NotStrictError
    made = {key: value for key, value in schema.items() if key != "default"}
    reference = made.get("$ref")
    if isinstance(reference, str) and len(made) > 1:
        # A reference must stand alone, so what it refers to takes its place.
        if reference in inside:
            raise _NotStrictError
        del made["$ref"]
        return _strict({**_referred(reference, root), **made}, root, (*inside, reference))
    for group in ("properties", "$defs", "definitions"):
        if group in made:
            made[group] = {name: _strict(each, root, inside) for name, each in made[group].items()}
    for key in _NESTED:
        if key in made:
            made[key] = [_strict(each, root, inside) for each in made[key]]
    if "items" in made:
        made["items"] = _strict(made["items"], root, inside)
    if made.get("type") == "object":
        if made.get("additionalProperties") not in (None, False) or not made.get("properties") or "patternProperties" in made:
            raise _NotStrictError
        made |= {"required": list(made["properties"]), "additionalProperties": False}
    elif not made.keys() & {"type", "$ref", "enum", "const", *_NESTED}:
        raise _NotStrictError  # it takes anything
    return made


def _referred(reference: str, root: JsonObject) -> JsonObject:
    found: JsonValue = root
    for step in reference.removeprefix("#/").split("/"):
        if not isinstance(found, dict) or step not in found:
            raise _NotStrictError
        found = found[step]
    if not isinstance(found, dict):
        raise _NotStrictError
    return found
