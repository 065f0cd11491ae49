"""Which values the state may hold: those that come back from the store as they were put in.

A store holds JSON's values, and bytes. A value of any other kind would come back as another one: a datetime as a text, a set as a
list. So it is refused when it is written. A tuple is the one exception: it comes back as a list of the same values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

from actors.errors import NotEncodableError
from actors.errors.user_code import error_text, is_interrupt
from actors.messages.codec import MAX_DEPTH, plain
from actors.messages.json_types import JsonMapping, StateDelta
from actors.messages.shown import shown

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
    """A value that would not come back as it is: its type, what to do instead, and the keys on the way to it, last one first."""

    kind: str
    instead: str
    way: tuple[object, ...] = ()
    is_key: bool = False

    def inside(self, key: object) -> _Flaw:
        """The same, seen from the list or dictionary that has the value at `key`."""
        return self._replace(way=(*self.way, key))


def check_value(key: object, value: object) -> None:
    """Check a value that is put into the state. How deep it is nested is checked with its event.

    Raises:
        NotEncodableError: the value, or one inside of it, would come back as another one; the message says what to store instead.
    """
    try:
        flaw = _flaw(value, set())
    except BaseException as error:
        # The value may be of a user's own class, which may raise anything; nothing is awaited, so it is no cancellation.
        if is_interrupt(error):
            raise
        raise NotEncodableError(type(value).__name__, error_text(error)) from error
    if flaw is not None:
        where = "state" + "".join(f"[{shown(step)}]" for step in (key, *reversed(flaw.way)))
        raise NotEncodableError(flaw.kind, f"{'a key of ' if flaw.is_key else ''}{where} {flaw.instead}")


def stored_delta(delta: JsonMapping) -> StateDelta:
    """A change of state in the form in which it comes back from the store. Raises NotEncodableError like `check_value`."""
    for key, value in delta.items():
        if not isinstance(key, str):
            raise NotEncodableError(
                type(key).__name__, f"a key of state would come back as a text: use a `str`, not {shown(key)}"
            )
        check_value(key, value)
    stored: StateDelta = plain(delta)
    return stored


def _flaw(value: object, around: set[int]) -> _Flaw | None:
    """The first value that would be changed: this one, or one inside of it.

    Args:
        around: the ids of the lists and dictionaries that it stands in.
    """
    if type(value) in _PLAIN:
        return None
    if isinstance(value, Enum) and isinstance(value, _PLAIN):
        return _Flaw(type(value).__name__, _instead(value)) if value.value != value else None
    if isinstance(value, _PLAIN):
        return None
    if id(value) in around or len(around) > MAX_DEPTH:
        return None
    if isinstance(value, dict):
        items: Iterable[tuple[object, object]] = value.items()
        for key in value:
            if not isinstance(key, str):
                return _Flaw(type(key).__name__, f"would come back as a text: use texts as keys, not {shown(key)}", is_key=True)
    elif isinstance(value, list) or type(value) is tuple:
        items = enumerate(value)
    else:
        return _Flaw(type(value).__name__, _instead(value))
    around.add(id(value))
    for key, each in items:
        flaw = _flaw(each, around)
        if flaw is not None:
            return flaw.inside(key)
    around.discard(id(value))
    return None


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
