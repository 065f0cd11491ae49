"""Scopes of session state (semantics.md section 6): plain keys, `user:`, `app:` and `temp:`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from actors.errors import InvalidIdError, NotEncodableError
from actors.messages.codec import flaw
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue
from actors.rules.checks.ids import MAX_ID, is_readable, printable

T = TypeVar("T")

APP = "app:"
USER = "user:"
TEMP = "temp:"
_BARE = frozenset({APP, USER, TEMP})

Undo = dict[str, list[JsonValue]]
"""What a delta overwrote: by key, the value in a list of one, or an empty list when there was none."""


class Scopes(NamedTuple):
    """State by scope, keys without their prefix."""

    session: JsonObject
    user: JsonObject
    app: JsonObject
    temp: JsonObject


def check(delta: JsonMapping) -> None:
    """Check a change of state.

    Raises:
        InvalidIdError: a key is not valid.
        NotEncodableError: a value is nested too deep.
    """
    for key in delta:
        _check_key(key)
    if delta and (wrong := flaw(dict(delta))) is not None:
        raise NotEncodableError("state_delta", wrong)


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= MAX_ID or key in _BARE or not is_readable(key):
        raise InvalidIdError("state key", printable(key), f"use a text of 1 to {MAX_ID} printable characters behind the prefix")


def split(delta: JsonMapping) -> Scopes:
    """Prefixed keys sorted into their scopes."""
    scopes = Scopes({}, {}, {}, {})
    for key, value in delta.items():
        if key.startswith(USER):
            scopes.user[key.removeprefix(USER)] = value
        elif key.startswith(APP):
            scopes.app[key.removeprefix(APP)] = value
        elif key.startswith(TEMP):
            scopes.temp[key.removeprefix(TEMP)] = value
        else:
            scopes.session[key] = value
    return scopes


def merge(scopes: Scopes) -> JsonObject:
    """One mapping of all scopes, by prefixed keys."""
    merged = dict(scopes.session)
    for prefix, of_scope in ((USER, scopes.user), (APP, scopes.app), (TEMP, scopes.temp)):
        merged.update({prefix + key: value for key, value in of_scope.items()})
    return merged


def without_temp(delta: Mapping[str, T]) -> dict[str, T]:
    """The part of a delta, or of what is said of its keys, that events store: everything but `temp:` keys."""
    return {key: value for key, value in delta.items() if not key.startswith(TEMP)}


def only_temp(delta: JsonMapping) -> JsonObject:
    """The `temp:` part of a delta, keys without their prefix."""
    return {key.removeprefix(TEMP): value for key, value in delta.items() if key.startswith(TEMP)}


def overwritten(state: JsonMapping, delta: JsonMapping) -> Undo:
    """The values that a delta overwrites in a state."""
    return {key: [state[key]] if key in state else [] for key in delta}


def take_back(undos: Sequence[Mapping[str, list[JsonValue]]]) -> Undo:
    """One delta that takes several back, as if they had been one.

    Args:
        undos: one per delta, newest first; for each key the oldest counts.
    """
    whole: Undo = {}
    for undo in undos:
        whole.update(undo)
    return whole
