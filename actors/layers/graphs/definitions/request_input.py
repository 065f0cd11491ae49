"""A question of a node to the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic

from actors.errors import DefinitionError
from actors.errors.hints import explains_wrong_calls
from actors.messages.codec import plain
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue
from actors.messages.shown import shown


class RequestInput:
    """What a function yields or returns to ask the user: the turn pauses when nothing else of the graph can run.

    Args:
        interrupt_id: the id of the call that the user answers; by default one that no other question has.
        message: the question.
        payload: plain data for whatever shows the question.
        response_schema: what the answer has to be: a type that pydantic knows, or a JSON schema. An answer that is not is
            refused, and the question asked again.

    Raises:
        DefinitionError: `response_schema` is neither.
    """

    @explains_wrong_calls
    def __init__(
        self,
        *,
        interrupt_id: str | None = None,
        message: str | None = None,
        payload: Any = None,
        response_schema: type | JsonMapping | None = None,
    ) -> None:
        self.interrupt_id = interrupt_id
        self.message = message
        self.payload: JsonValue = plain(payload)
        self.response_schema = _json_schema(response_schema)

    @property
    def args(self) -> JsonObject:
        """The arguments of the call that the user answers."""
        given = {"message": self.message, "payload": self.payload, "response_schema": self.response_schema}
        return {name: value for name, value in given.items() if value is not None}


def _json_schema(given: Any) -> JsonMapping | None:
    if given is None or isinstance(given, Mapping):
        return given
    try:
        return pydantic.TypeAdapter(given).json_schema()
    except pydantic.errors.PydanticUserError as error:
        raise DefinitionError(f"response_schema is a type that pydantic knows, or a JSON schema, not {shown(given)}") from error
