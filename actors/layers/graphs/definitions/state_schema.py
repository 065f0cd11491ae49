"""What the nodes of a graph may write into the session's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pydantic

from actors.errors import DefinitionError, StateSchemaError
from actors.errors.hints import problems
from actors.messages.json_types import JsonValue, StateDelta


class StateSchema:
    """A graph's `state_schema`, ready for use. Keys with a prefix, such as `user:`, are no part of it.

    Args:
        given: a pydantic model.

    Raises:
        DefinitionError: it is none.
    """

    def __init__(self, given: Any) -> None:
        if not (isinstance(given, type) and issubclass(given, pydantic.BaseModel)):
            raise DefinitionError(f"state_schema is a pydantic model, not {given!r:.60}")
        self._types: Mapping[str, pydantic.TypeAdapter[Any]] = {
            name: pydantic.TypeAdapter[Any](cast(Any, field.annotation)) for name, field in given.model_fields.items()
        }

    def check_parameters(self, node: str, names: list[str]) -> None:
        """Check that the state can have what a function takes from it. Raises StateSchemaError."""
        for name in names:
            if name not in self._types:
                raise StateSchemaError(f"node {node!r}", name, self._no_such_key())

    def fitting(self, written: StateDelta) -> StateDelta:
        """The part of it that may be written."""
        return {key: value for key, value in written.items() if self._flaw(key, value) is None}

    def check(self, path: str, written: StateDelta) -> None:
        """Check what a run has written. Raises StateSchemaError."""
        for key, value in written.items():
            if (flaw := self._flaw(key, value)) is not None:
                raise StateSchemaError(path, key, flaw)

    def _no_such_key(self) -> str:
        return f"the state_schema has {', '.join(self._types) or 'nothing'}"

    def _flaw(self, key: str, value: JsonValue) -> str | None:
        if ":" in key or value is None:
            return None
        if key not in self._types:
            return self._no_such_key()
        try:
            self._types[key].validate_python(value)
        except pydantic.ValidationError as error:
            return problems(error)
        return None
