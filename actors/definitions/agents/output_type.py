"""The type of an agent's answer: how models are asked for it, how it is checked and in which form it is stored."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import msgspec
import pydantic

from actors.errors.validation import problems
from actors.messages.codec import plain
from actors.messages.json_types import JsonObject, JsonValue


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
        self._is_text = given is str
        # Made with the definition and pickled as it is: in another process the annotations of a class of `__main__`, texts under
        # `from __future__ import annotations`, could not be resolved any more.
        self._adapter: pydantic.TypeAdapter[Any] | None = None
        if isinstance(given, dict):
            self.json_schema: JsonObject = given
            return
        try:
            self._adapter = pydantic.TypeAdapter(given)
            self.json_schema = self._adapter.json_schema()
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
        try:
            if self._adapter is None:
                return msgspec.json.decode(text)
            value = self._adapter.validate_json(text)
            return plain(self._adapter.dump_python(value, mode="json", exclude_none=True))
        except pydantic.ValidationError as error:
            if self._is_text:
                # A model that was not asked for JSON writes the text itself.
                return text
            raise ValueError(problems(error)) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"it is no JSON: {error}") from error

    def of_user(self, text: str) -> JsonValue:
        """The words of a user, as JSON or as a text, in the form in which it is stored. Raises ValueError."""
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


def output_type(given: Any) -> OutputType:
    """The OutputType of an `output_schema`; agents with the same schema share one. Raises what OutputType raises."""
    return _shared(given) if isinstance(given, Hashable) else OutputType(given)


@lru_cache(maxsize=10_000)
def _shared(given: Any) -> OutputType:
    # pydantic takes about a millisecond, and thousands of agents may have the same schema.
    return OutputType(given)
