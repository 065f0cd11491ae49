"""How definitions are shown: in one line, by what differs from the defaults."""

from __future__ import annotations

from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType

from pydantic.fields import FieldInfo

from actors.definitions.tools.base import Tool
from actors.messages.shown import Text, shown


class ShownByChanges:
    """Mixin of pydantic models that are shown by what differs from the defaults; functions and other definitions by name."""

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        fields: dict[str, FieldInfo] = getattr(type(self), "model_fields", {})
        for name, field in fields.items():
            value = getattr(self, name, None)
            if value is not field.default and value != field.get_default(call_default_factory=True):
                yield name, Text(shown(_by_name(value)))

    def __str__(self) -> str:
        return repr(self)


def _by_name(value: object) -> object:
    """A value with names in place of what would fill a page."""
    match value:
        case list() | tuple():
            return [_by_name(each) for each in value]
        case FunctionType() | MethodType() | BuiltinFunctionType() | type():
            return Text(value.__name__)
        case Tool():
            return Text(value.name)
        case ShownByChanges() if name := getattr(value, "name", ""):
            return Text(f"{type(value).__name__}({name!r})")
        case _:
            return value
