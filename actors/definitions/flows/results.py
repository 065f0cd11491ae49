"""What the result of a task is to be: how it is asked of a model, checked, stored and given to the user's program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pydantic

from actors.errors import DefinitionError, NotEncodableError
from actors.messages.codec import plain


class ResultType:
    """A task's `result_type`, ready for use.

    Args:
        task: whose it is, for messages.
        given: None, for a task without a result; a list or tuple of labels, of which one is chosen by its index; or a type: a
            plain one, a pydantic model, a dataclass, or anything else that pydantic can validate.

    Raises:
        DefinitionError: it is none of these.
    """

    def __init__(self, task: str, given: Any) -> None:
        self._given = given
        self.labels: Sequence[Any] | None = tuple(given) if isinstance(given, list | tuple) else None
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
        # Made at definition, and travels as it is: in another process the annotations of a dataclass of `__main__`, texts under
        # `from __future__ import annotations`, could not be resolved any more.
        return pydantic.TypeAdapter(self._given)

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of the result as a model gives it."""
        if self.labels is not None:
            listed = ", ".join(f"{index}: {label}" for index, label in enumerate(self._stored_labels))
            return {"type": "integer", "minimum": 0, "maximum": len(self.labels) - 1, "description": f"One of {listed}"}
        return self._adapter.json_schema()

    def told(self) -> str:
        """What an agent is told that the result is to be; "" for none."""
        if self.is_none:
            return ""
        if self.labels is not None:
            return "one of these, by its number: " + ", ".join(f"{i}: {label}" for i, label in enumerate(self._stored_labels))
        if self._given is str:
            return "a text"
        schema = self.schema
        return f"{schema.get('title') or schema.get('type') or 'a value'}, as the function wants it"

    def checked(self, value: Any) -> Any:
        """What a model gave, in the form in which it is stored: plain data.

        Raises:
            ValueError: it does not fit; told so that the model can mend it.
        """
        if self.is_none:
            return None
        if self.labels is not None:
            return self._stored_labels[self._index(value, len(self.labels))]
        try:
            return plain(self._adapter.dump_python(self._adapter.validate_python(value), mode="json"))
        except pydantic.ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors())
            raise ValueError(f"the result does not fit: {wrong.removeprefix(': ')}") from error

    def _index(self, value: Any, count: int) -> int:
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(whole, bool) or not isinstance(whole, int) or not 0 <= whole < count:
            raise ValueError(f"the result must be the number of a label, 0 to {count - 1}, not {value!r}: {self.told()}")
        return whole

    def typed(self, stored: Any) -> Any:
        """The result as the user's program wants it, from the form in which it is stored."""
        if self.is_none or stored is None:
            return None
        if self.labels is not None:
            places = [index for index, label in enumerate(self._stored_labels) if label == stored]
            return self.labels[places[0]] if places else stored
        return self._adapter.validate_python(stored)
