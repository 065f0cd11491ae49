"""Which values the state may hold: those that come back from the store as they were put in.

A store holds JSON's values, and bytes. A value of any other kind would come back as another one: a datetime as a text, a set as a
list. So it is refused when it is written. A tuple is the one exception: it comes back as a list of the same values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

from actors.errors import NotEncodableError
from actors.messages.codec import plain
from actors.messages.json_types import JsonMapping, StateDelta

_PLAIN = (str, bool, int, float, bytes, type(None))

_INSTEAD: Sequence[tuple[tuple[type, ...], str]] = (
    ((date, time), "would come back as a text: store its isoformat()"),
    ((timedelta,), "would come back as a text: store its total_seconds()"),
    ((set, frozenset), "would come back as a list: store it sorted, as a list"),
    ((Decimal,), "would come back as a text: store it as one, by str()"),
    ((Enum,), "would come back as its value: store its .value"),
    ((tuple,), "would come back as a list without names: store its _asdict()"),
)
"""What to store instead, by type."""

_OTHERWISE = "does not come back: store texts, numbers, booleans, None, bytes, lists and dictionaries, or save it as an artifact"


class _Flaw(NamedTuple):
    """A value that would not come back as it is: its type, where it stands, and what to do instead."""

    kind: str
    where: str
    instead: str


def check_value(key: object, value: object) -> None:
    """Check a value that is put into the state.

    Raises:
        NotEncodableError: the value, or one inside of it, would come back as another one; the message says what to store instead.
    """
    if type(value) in _PLAIN:
        return
    for flaw in _flaws(f"state[{key!r}]", value, ()):
        raise NotEncodableError(flaw.kind, f"{flaw.where} {flaw.instead}")


def stored_delta(delta: JsonMapping) -> StateDelta:
    """A change of state in the form in which it comes back from the store. Raises NotEncodableError like `check_value`."""
    for key, value in delta.items():
        check_value(key, value)
    stored: StateDelta = plain(delta)
    return stored


def _flaws(where: str, value: object, around: tuple[int, ...]) -> Iterator[_Flaw]:
    """What would be changed in a value, the value itself included. `around`: the ids of the values that it stands in."""
    kind = type(value).__name__
    if isinstance(value, Enum) and value.value != value:
        yield _Flaw(kind, where, _instead(value))
    elif isinstance(value, _PLAIN) or id(value) in around:
        # A value that holds itself is found when the event is encoded.
        return
    elif isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                yield _Flaw(type(key).__name__, f"a key of {where}", f"would come back as a text: use texts as keys, not {key!r}")
            yield from _flaws(f"{where}[{key!r}]", each, (*around, id(value)))
    elif isinstance(value, list) or type(value) is tuple:
        for index, each in enumerate(value):
            yield from _flaws(f"{where}[{index}]", each, (*around, id(value)))
    else:
        yield _Flaw(kind, where, _instead(value))


def _instead(value: object) -> str:
    for kinds, instead in _INSTEAD:
        if isinstance(value, kinds):
            return instead
    if hasattr(value, "model_dump"):
        return 'would come back as a dictionary: store its model_dump(mode="json")'
    if dataclasses.is_dataclass(value):
        return "would come back as a dictionary: store dataclasses.asdict() of it"
    if hasattr(value, "to_dict"):
        return "would come back as a dictionary: store its to_dict()"
    return _OTHERWISE
