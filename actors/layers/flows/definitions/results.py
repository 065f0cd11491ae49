"""The type of a task's result: how models are asked for it, how it is checked and stored, and what users get."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pydantic

from actors.errors import DefinitionError, NotEncodableError
from actors.errors.hints import problems
from actors.messages.codec import plain
from actors.messages.json_types import JsonMapping, JsonValue


class ResultType:
    """A task's `result_type`, checked and ready for use.

    Args:
        task: the name of the task, for errors.
        given: a plain type, a pydantic model, a dataclass or anything else that pydantic can validate; a list or tuple of
            labels, of which the model chooses one by its index; or None, for a task without a result.

    Attributes:
        labels: the labels; None when the result is no label.

    Raises:
        DefinitionError: `given` is none of these.
    """

    def __init__(self, task: str, given: Any) -> None:
        self._given = given
        self.labels: Sequence[object] | None = tuple(given) if isinstance(given, list | tuple) else None
        if self.labels is not None and not self.labels:
            raise DefinitionError(f"task {task!r}: result_type is an empty list: give at least one label")
        try:
            if self.labels is not None:
                self._stored_labels = [plain(label) for label in self.labels]
            elif given is not None:
                _ = self.schema
        except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError, NotEncodableError) as error:
            raise DefinitionError(
                f"task {task!r}: result_type is a type, a pydantic model, a dataclass, a list of labels or None; not {given!r}"
            ) from error

    @property
    def is_none(self) -> bool:
        """True for a task without a result."""
        return self._given is None

    @cached_property
    def _adapter(self) -> pydantic.TypeAdapter[Any]:
        # Made with the definition and pickled as it is: in another process the annotations of a dataclass of `__main__`, texts
        # under `from __future__ import annotations`, could not be resolved any more.
        return pydantic.TypeAdapter(self._given)

    @cached_property
    def schema(self) -> JsonMapping:
        """The JSON schema of the result in the form in which a model gives it."""
        if self.labels is not None:
            listed = ", ".join(f"{index}: {label}" for index, label in enumerate(self._stored_labels))
            return {"type": "integer", "minimum": 0, "maximum": len(self.labels) - 1, "description": f"One of {listed}"}
        return self._adapter.json_schema()

    def description(self) -> str:
        """The result that is wanted, in words for an agent's instruction; "" for a task without a result."""
        if self.is_none:
            return ""
        if self.labels is not None:
            return "one of these, by its number: " + ", ".join(f"{i}: {label}" for i, label in enumerate(self._stored_labels))
        if self._given is str:
            return "a text"
        schema = self.schema
        return f"{schema.get('title') or schema.get('type') or 'a value'}, as the function wants it"

    def checked(self, value: JsonValue) -> JsonValue:
        """The result that a model gave, in the form in which it is stored.

        Raises:
            ValueError: it does not fit; the message helps the model to correct it.
        """
        if self.is_none:
            return None
        if self.labels is not None:
            return self._stored_labels[self._index(value, len(self.labels))]
        try:
            return plain(self._adapter.dump_python(self._adapter.validate_python(value), mode="json"))
        except pydantic.ValidationError as error:
            raise ValueError(f"the result does not fit: {problems(error)}") from error

    def _index(self, value: JsonValue, count: int) -> int:
        index = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
            raise ValueError(f"the result must be the number of a label, 0 to {count - 1}, not {value!r}: {self.description()}")
        return index

    def typed(self, stored: JsonValue) -> Any:
        """The result as an object of its type, made from the stored form.

        Raises:
            pydantic.ValidationError: what is stored does not fit the type, for instance because the type has changed since.
        """
        if self.is_none or stored is None:
            return None
        if self.labels is not None:
            indexes = [index for index, label in enumerate(self._stored_labels) if label == stored]
            return self.labels[indexes[0]] if indexes else stored
        return self._adapter.validate_python(stored)
