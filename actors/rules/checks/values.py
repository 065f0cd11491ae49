"""Which values are stored, in which form, and how large they may be (sizes: see Limits).

A store holds JSON's values, and bytes. A value of any other kind would come back from it as another one: a datetime as a text, a
set as a list.

- In the state such a value is refused when it is written. A tuple is the one exception: it comes back as a list of the same
  values.
- In the result of a tool it becomes what one would write in its place: a path its text, a range a list, NaN null. The tool has
  run, so such a value is no reason for an error: the model would call the tool again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from typing import Any, NamedTuple

from actors.errors import NotEncodableError, TooLargeError
from actors.errors.user_code import error_text, is_interrupt
from actors.messages.codec import MAX_DEPTH, flaw, plain, plain_sized
from actors.messages.config import KIB, Limits
from actors.messages.event import USER, Event, encode_event
from actors.messages.json_types import JsonMapping, JsonValue, StateDelta
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


MOST_ITEMS = 10_000
"""So many items of an iterator are taken: it may have no end."""

_LONG = 2**63

Note = Callable[[str], None]
"""Takes what is not as the tool has given it."""


def fast_form(value: object) -> tuple[JsonValue, int] | None:
    """The stored form of a value that JSON knows, and its bytes; None for any other.

    Only classes of Python, dataclasses and pydantic's models are looked into.
    """
    try:
        data, size = plain_sized(value)
    except NotEncodableError:
        return None
    return (data, size) if flaw(data if isinstance(data, dict | list) else [data], is_finite=True) is None else None


def any_form(value: object, note: Note) -> tuple[JsonValue, int]:
    """The stored form of any value, and its bytes. It calls code of the value's class, and an iterator is used up.

    Args:
        note: called for what was lost: values that have become a text or null, and what was left out.
    """
    return plain_sized(_form(value, note, 0))


def _form(value: object, note: Note, depth: int) -> JsonValue:
    try:
        return _by_kind(value, note, depth)
    except BaseException as error:
        # The value may be of a user's own class, which may raise anything.
        if is_interrupt(error):
            raise
        note(f"a {type(value).__name__} was left out: {error_text(error)}")
        return None


def _by_kind(value: Any, note: Note, depth: int) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _form(value.value, note, depth)
    if isinstance(value, str):
        # Half of a surrogate pair has no form in UTF-8; both halves are one character.
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int):
        return int(value) if -_LONG <= value < 2 * _LONG else _digits(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        note(f"{value} has become null")
        return None
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {error_text(value)}"
    if hasattr(type(value), "__fspath__"):
        return _form(value.__fspath__(), note, depth)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if depth >= MAX_DEPTH - 10:
        note("what is nested deeper than 90 levels has become a text")
        return _text(value, note)
    if isinstance(value, Mapping):
        return {_key(key, note): _form(each, note, depth + 1) for key, each in value.items()}
    if (inside := _inside(value)) is not value:
        return _form(inside, note, depth + 1)
    if isinstance(value, Iterable):
        return [_form(each, note, depth + 1) for each in _items(value, note)]
    try:
        # What msgspec knows: dates, decimals, UUIDs.
        return plain(value)
    except NotEncodableError:
        note(f"a {type(value).__name__} has become a text")
        return _text(value, note)


def _inside(value: Any) -> object:
    """The same value without its class: the fields of an object, the items of an array; itself if there is no such form."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for name in ("_asdict", "to_dict", "tolist"):
        if callable(convert := getattr(type(value), name, None)):
            return convert(value)
    return value


def _items(value: Iterable[object], note: Note) -> Iterator[object]:
    if not isinstance(value, Iterator):
        yield from value
        return
    yield from islice(value, MOST_ITEMS)
    if next(value, None) is not None:
        note(f"of a {type(value).__name__} the first {MOST_ITEMS:,} items were taken")


def _key(key: object, note: Note) -> str:
    named = key.value if isinstance(key, Enum) else key
    return _text(named, note)


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        # Python writes no decimals of so many digits.
        return hex(value)


def _text(value: object, note: Note) -> str:
    return str(_form(str(value), note, 0))


ENVELOPE = 8 * KIB
"""Bytes of an event that are kept free for everything besides the results of tools."""


def encoded(event: Event, limits: Limits) -> bytes:
    """The wire form of an event that may be stored.

    Raises:
        TooLargeError: it is larger than an event may be.
        NotEncodableError: see `encode_event`.
    """
    raw = encode_event(event)
    check_event(event.author, len(raw), limits)
    return raw


def check_event(author: str, size: int, limits: Limits) -> None:
    """Check the size of an event in bytes. Raises TooLargeError."""
    if size > limits.max_event_bytes:
        if author == USER:
            what = "the event of the message"
            advice = "RunConfig(save_input_blobs_as_artifacts=True) keeps data out of it, and rt.artifacts.save what is long"
        else:
            what, advice = f"an event of agent {author!r}", "save what is large as an artifact, and say its name"
        raise TooLargeError(what, size, "RAYGROVE_MAX_EVENT_BYTES", limits.max_event_bytes, advice)


def check_state(scope: str, size: int, most: int) -> None:
    """Check the size in bytes that the state of a scope would have. Raises TooLargeError."""
    if size > most:
        advice = "set keys that are not needed to something small, and save what is large as an artifact"
        raise TooLargeError(f"the {scope} state", size, "RAYGROVE_MAX_STATE_BYTES", most, advice)


def too_large_request(size: int, limit: int) -> TooLargeError:
    """The error of a driver's request that has more bytes than its limit."""
    advice = "save what is large with rt.artifacts.save, and say its name in the message"
    return TooLargeError("the message", size, "RAYGROVE_MAX_MESSAGE_BYTES", limit, advice)


def results_to_drop(sizes: Sequence[int], limits: Limits) -> set[int]:
    """The indexes of the tool results to shorten so that all fit into one event: the largest first.

    Args:
        sizes: bytes of each result.
        limits: the size of an event.
    """
    room = limits.max_event_bytes - ENVELOPE
    dropped: set[int] = set()
    total = sum(sizes)
    for index in sorted(range(len(sizes)), key=lambda index: sizes[index], reverse=True):
        if total <= room:
            break
        dropped.add(index)
        total -= sizes[index]
    return dropped


def beginning_and_end(text: str, room: int) -> str:
    """A text of which only so many characters are left: three quarters of them from its beginning, the others from its end."""
    if len(text) <= room:
        return text
    end = room // 4
    left_out = f"\n[… {len(text) - room} of {len(text)} characters are left out …]\n"
    return text[: room - end] + left_out + text[len(text) - end :]
