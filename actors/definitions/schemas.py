"""Types as JSON schemas for models: how models are asked for a value, how it is checked, and in which form it is stored."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import msgspec
import pydantic

from actors.errors.hints import problems
from actors.messages.codec import plain
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue


def json_schema(model: type[pydantic.BaseModel]) -> JsonObject:
    """A copy of the JSON schema of a model, which the caller may change.

    Raises:
        pydantic.errors.PydanticUserError: a field has no JSON schema.
    """
    copied: JsonObject = msgspec.to_builtins(_cached(model))
    return copied


def arguments_schema(model: type[pydantic.BaseModel]) -> JsonObject:
    """The JSON schema of a tool's arguments, without the titles that pydantic gives to all of them. Raises as `json_schema`."""
    schema = json_schema(model)
    for name in ("title", "description"):
        schema.pop(name, None)
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
    return schema


@lru_cache(maxsize=10_000)
def _cached(model: type[pydantic.BaseModel]) -> JsonObject:
    # pydantic takes about a millisecond, and every model call wants the schemas of all of an agent's tools.
    return model.model_json_schema()


_FENCE = "```"

_LANGUAGE = re.compile(r"^\w*[ \t]*\n?")
"""What may follow the beginning of a fence, such as `json`."""

_FORMS = frozenset({"format", "enum", "const", "contentMediaType"})
"""Keys in the JSON schema of a text that has to have a form: such a text may be given as JSON, in quotes."""


class OutputType:
    """An agent's `output_schema`, ready for use.

    Args:
        given: a pydantic model, a list of one, a TypedDict, a dataclass, `dict`, `str`, `int` or any other type that pydantic
            validates; or a JSON schema, against which answers are not checked.

    Attributes:
        json_schema: the JSON schema that models get. It may not be changed.

    Raises:
        ValueError: it is none of these.
    """

    def __init__(self, given: Any) -> None:
        self._is_text = False
        # Made with the definition and pickled as it is: in another process the annotations of a class of `__main__`, texts under
        # `from __future__ import annotations`, could not be resolved any more.
        self._adapter: pydantic.TypeAdapter[Any] | None = None
        if isinstance(given, dict):
            self.json_schema: JsonObject = given
            return
        try:
            self._adapter = pydantic.TypeAdapter(given)
            self.json_schema = self._adapter.json_schema()
            self._is_text = _is_text(self.json_schema)
        except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError, NameError, TypeError) as error:
            raise ValueError(
                f"must be a pydantic model, or another type that pydantic validates, such as list[Model], dict or a dataclass, "
                f"not {given!r}: {error}"
            ) from error

    def value_of(self, text: str) -> JsonValue:
        """The answer in a model's text, in the form in which it is stored.

        Raises:
            ValueError: it does not fit; the message says where.
        """
        json = text if self._is_text else _without_fence(text)
        try:
            if self._adapter is None:
                return msgspec.json.decode(json)
            value = self._adapter.validate_json(json)
            return plain(self._adapter.dump_python(value, mode="json", exclude_none=True))
        except pydantic.ValidationError as error:
            if self._is_text:
                # A model that was not asked for JSON writes the text itself.
                return self._text(text)
            raise ValueError(problems(error)) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"it is no JSON: {error}") from error

    def _text(self, text: str) -> JsonValue:
        try:
            return self.data_of(text)
        except pydantic.ValidationError as error:
            raise ValueError(problems(error)) from error

    def of_user(self, text: str) -> JsonValue:
        """The words of a user in the form in which they are stored: for a type that takes a text as they are, else as JSON if
        they are JSON.

        Raises:
            ValueError: they do not fit.
        """
        if self._is_text:
            return self.data_of(text)
        try:
            return self.data_of(msgspec.json.decode(text))
        except msgspec.DecodeError:
            return self.data_of(text)

    def data_of(self, value: JsonValue) -> JsonValue:
        """Data that a model has given as arguments, in the form in which it is stored.

        Raises:
            ValueError: it does not fit; the message is pydantic's, which models know.
        """
        if self._adapter is None:
            return value
        return plain(self._adapter.dump_python(self._adapter.validate_python(value), mode="json", exclude_none=True))


def _is_text(schema: JsonMapping) -> bool:
    """True for the schema of a text, or of a text that may be missing; False for texts in a form, such as dates and enums."""
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return bool(kinds) and all(each.get("type") == "string" and not each.keys() & _FORMS for each in kinds)


def _without_fence(text: str) -> str:
    """The text inside of a Markdown fence that stands around the whole; else the text. JSON never begins with a fence.

    Models write one around their answer where its form is only asked for, such as beside tools.
    """
    inner = text.strip()
    if len(inner) < 2 * len(_FENCE) or not (inner.startswith(_FENCE) and inner.endswith(_FENCE)):
        return text
    return _LANGUAGE.sub("", inner.removeprefix(_FENCE).removesuffix(_FENCE), count=1)


def output_type(given: Any) -> OutputType:
    """The OutputType of an `output_schema`; agents with the same schema share one. Raises what OutputType raises."""
    return _shared(given) if isinstance(given, Hashable) else OutputType(given)


@lru_cache(maxsize=10_000)
def _shared(given: Any) -> OutputType:
    # pydantic takes about a millisecond, and thousands of agents may have the same schema.
    return OutputType(given)
