"""A parameter of a node's function, and how values are made to fit it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pydantic

from actors.messages.content import Content


class NodeParameter:
    """A parameter of a node's function that is filled from the input or from the state.

    Args:
        annotation: its type; Any without one.
        is_required: it has no default.
    """

    def __init__(self, annotation: Any, is_required: bool) -> None:
        self.annotation = annotation
        self.is_required = is_required

    def __reduce__(self) -> tuple[type[NodeParameter], tuple[Any, bool]]:
        return NodeParameter, (self.annotation, self.is_required)

    def fitted(self, value: object) -> object:
        """The value as the parameter's type has it; the words of a Content are read as JSON if they are that.

        Raises:
            pydantic.ValidationError: it does not fit.
        """
        if self.annotation is Any or self.annotation is Content:
            return value
        if not isinstance(value, Content):
            return self._adapter.validate_python(value)
        if self.annotation is str:
            return value.text
        try:
            return self._adapter.validate_json(value.text)
        except pydantic.ValidationError:
            return self._adapter.validate_python(value.text)

    @cached_property
    def _adapter(self) -> pydantic.TypeAdapter[Any]:
        # To make one costs more than all else that a small function's node does.
        return pydantic.TypeAdapter(self.annotation)
