"""What agents of a task are shown beside its objective: values, and results of other tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass

from pydantic import BaseModel

from actors.definitions.agents.shown import ShownByChanges
from actors.definitions.tools.base import Tool
from actors.errors import NotEncodableError
from actors.messages.codec import flaw, plain
from actors.messages.json_types import JsonValue


@dataclass(frozen=True)
class ResultOf:
    """Stands in a task's context for the result of another task, by its name."""

    task: str


TaskContext = Mapping[str, JsonValue | ResultOf]
"""The context of a task in the form in which it is sent to actors."""


def checked_value(key: object, value: object) -> JsonValue:
    """A value of a task's context as plain data. Raises ValueError when a model cannot be shown it."""
    if not isinstance(key, str) or not key:
        raise ValueError(f"its keys are texts that are not empty, not {key!r}")
    for inner in _parts(value):
        if isinstance(inner, ShownByChanges | Tool):
            raise ValueError(
                f"{key!r} has a {type(inner).__name__} in it: only values are shown, and tasks that are values themselves"
            )
        if isinstance(inner, set | frozenset):
            # Another program has the items in another order, and a flow that it gives again would be another flow.
            raise ValueError(f"{key!r} has a set in it: give a list, which has an order")
    try:
        found = plain(value)
        if (wrong := flaw([found], is_finite=True)) is not None:
            raise NotEncodableError(type(value).__name__, wrong)
    except NotEncodableError as error:
        raise ValueError(f"{key!r} is no JSON value: {error}") from error
    if any(isinstance(inner, bytes) for inner in _parts(found)):
        raise ValueError(f"{key!r} has bytes in it: give a text, or save them as an artifact")
    return found


def _parts(value: object) -> Iterator[object]:
    """A value, and everything in it."""
    waiting, seen = [value], set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        if isinstance(found, Mapping):
            waiting += found.values()
        elif isinstance(found, list | tuple):
            waiting += found
        elif isinstance(found, BaseModel):
            waiting += vars(found).values()
        elif is_dataclass(found):
            waiting += (getattr(found, field.name, None) for field in fields(found))
