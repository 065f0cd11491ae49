"""Schemas of OpenAPI as JSON schemas without references, as large as a model can read.

Rules of this file:

- A reference is replaced by what it leads to. Where it leads to a schema that it is a part of, only type and description stay.
- A schema with more than `MAX_NODES` schemas inside, or of more than `MAX_BYTES`, is cut, as deep as that takes.
- What the server sets by itself (`readOnly`) is left out, since the schemas are those of requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from actors.messages.json_types import JsonMapping, JsonObject
from runtime.integrations.openapi.document import Document

MAX_NODES = 600
MAX_BYTES = 16 * 1024
MAX_DESCRIPTION = 1_000
"""Characters of the description of a schema."""

MAX_OUTLINE = 100
"""Characters of the description of a schema that is too deep inside others."""

_DEPTHS = (16, 10, 7, 5, 4, 3, 2, 1)

_KEPT = frozenset(
    {"type", "format", "description", "enum", "const", "default", "required", "pattern", "multipleOf", "uniqueItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"}
    | {"minItems", "maxItems", "minProperties", "maxProperties"}
)
_ONE = ("items", "additionalProperties", "not", "propertyNames", "contains")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties")
_MERGED = frozenset({"type", "title", "description", "properties", "required", "additionalProperties", "minProperties"})
"""Keywords of the parts of an `allOf` that are one object when they are put together."""

ARTIFACT = "The name of an artifact of this conversation, whose data is sent."


class _TooManyError(Exception):
    """There are more than MAX_NODES schemas."""


class Schemas:
    """Converts the schemas of a document.

    Args:
        document: where references lead.
    """

    def __init__(self, document: Document) -> None:
        self._document = document

    def of(self, schema: object) -> JsonObject:
        """The JSON schema of a value. Raises DefinitionError for a reference that leads nowhere."""
        for depth in _DEPTHS:
            try:
                converted = _Conversion(self._document, depth).of(schema, 0, ())
            except _TooManyError:
                continue
            if len(json.dumps(converted)) <= MAX_BYTES:
                return converted
        return _outline(self._document.followed(schema))


class _Conversion:
    def __init__(self, document: Document, depth: int) -> None:
        self._document = document
        self._depth = depth
        self._nodes = 0

    def of(self, schema: object, depth: int, inside: tuple[str, ...]) -> JsonObject:
        """Convert a schema.

        Args:
            inside: the references that have led here.
        """
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooManyError
        if schema is False:
            return {"not": {}}
        if not isinstance(schema, Mapping):
            return {}
        ref = schema.get("$ref")
        followed = self._document.followed(schema)
        if depth >= self._depth or (isinstance(ref, str) and ref in inside):
            return _outline(followed)
        if isinstance(ref, str):
            inside = (*inside, ref)
        return self._nullable(followed, self._merged(self._kept(followed, depth + 1, inside)))

    def _kept(self, schema: JsonMapping, depth: int, inside: tuple[str, ...]) -> JsonObject:
        kept: dict[str, Any] = {key: value for key, value in schema.items() if key in _KEPT and value is not None}
        for key in _NAMED:
            if isinstance(named := schema.get(key), Mapping):
                left = {name: each for name, each in named.items() if not self._is_read_only(each)}
                kept[key] = {name: self.of(each, depth, inside) for name, each in left.items()}
        for key in _LISTS:
            if isinstance(listed := schema.get(key), list) and listed:
                kept[key] = [self.of(each, depth, inside) for each in listed]
        for key in _ONE:
            value = schema.get(key)
            if isinstance(value, bool) and key == "additionalProperties":
                kept[key] = value
            elif isinstance(value, Mapping):
                kept[key] = self.of(value, depth, inside)
        self._mend(schema, kept)
        if isinstance(kept.get("description"), str):
            kept["description"] = kept["description"][:MAX_DESCRIPTION]
        return kept

    def _is_read_only(self, schema: object) -> bool:
        return isinstance(schema, Mapping) and self._document.followed(schema).get("readOnly") is True

    def _mend(self, schema: JsonMapping, kept: dict[str, Any]) -> None:
        """Bring what is left of older notations into the form of JSON Schema."""
        required = kept.pop("required", None)
        if isinstance(required, list):
            hidden = {name for name, each in _mapping(schema.get("properties")).items() if self._is_read_only(each)}
            if named := [name for name in required if isinstance(name, str) and name not in hidden]:
                kept["required"] = named
        for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(kept.get(bound), bool) and kept.pop(bound) and limit in kept:
                kept[bound] = kept.pop(limit)
        if _has_type(kept, "array"):
            kept.setdefault("items", {})
        if is_binary(schema):
            kept.pop("format", None)
            kept["description"] = " ".join(filter(None, [kept.get("description"), ARTIFACT]))

    @staticmethod
    def _merged(schema: JsonObject) -> JsonObject:
        """The schema with the parts of its `allOf` put together, where they are objects."""
        parts = schema.get("allOf")
        if not parts or not all(_MERGED.issuperset(part) and part.get("type", "object") == "object" for part in parts):
            return schema
        if not (_MERGED | {"allOf", "default"}).issuperset(schema) or schema.get("type", "object") != "object":
            return schema
        own = {key: value for key, value in schema.items() if key != "allOf"}
        merged: dict[str, Any] = {}
        for part in [*parts, own]:
            properties = {**merged.get("properties", {}), **part.get("properties", {})}
            required = list(dict.fromkeys([*merged.get("required", ()), *part.get("required", ())]))
            merged = {**merged, **part, "properties": properties, "required": required}
        return {"type": "object", **{key: value for key, value in merged.items() if value not in ({}, [])}}

    def _nullable(self, given: JsonMapping, schema: JsonObject) -> JsonObject:
        if not (self._document.is_3_0 and given.get("nullable") is True):
            return schema
        kind = schema.get("type")
        if not isinstance(kind, str):
            return {"anyOf": [schema, {"type": "null"}]} if schema else {}
        nullable = {**schema, "type": [kind, "null"]}
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            nullable["enum"] = [*schema["enum"], None]
        return nullable


def is_binary(schema: JsonMapping) -> bool:
    """True when a value of the schema is data: a model names an artifact instead."""
    if not _has_type(schema, "string"):
        return "contentMediaType" in schema and "contentEncoding" not in schema and "type" not in schema
    return schema.get("format") == "binary" or ("contentMediaType" in schema and "contentEncoding" not in schema)


def _has_type(schema: JsonMapping, name: str) -> bool:
    kind = schema.get("type")
    return kind == name or (isinstance(kind, list) and name in kind)


def _mapping(value: object) -> JsonMapping:
    return value if isinstance(value, Mapping) else {}


def _outline(schema: JsonMapping) -> JsonObject:
    """A short form of a schema that is too deep inside others: its type and its description."""
    outline = {key: schema[key] for key in ("type", "description") if schema.get(key)}
    if isinstance(outline.get("description"), str):
        outline["description"] = outline["description"][:MAX_OUTLINE]
    if "type" not in outline and "properties" in schema:
        outline["type"] = "object"
    return {**outline, "items": {}} if _has_type(outline, "array") else outline
