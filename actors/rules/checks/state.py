"""Scopes of session state (semantics.md section 6): plain keys, `user:`, `app:` and `temp:`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from actors.errors import InvalidIdError, NotEncodableError
from actors.messages.codec import flaw
from actors.rules.checks.ids import MAX_ID, is_readable, shown

APP = "app:"
USER = "user:"
TEMP = "temp:"
_BARE = frozenset({APP, USER, TEMP})

MISSING = object()


class Scopes(NamedTuple):
    """State by scope, keys without their prefix."""

    session: dict[str, Any]
    user: dict[str, Any]
    app: dict[str, Any]
    temp: dict[str, Any]


def check(delta: Mapping[str, Any]) -> None:
    """See that state may be changed so.

    Raises:
        InvalidIdError: a key cannot be one.
        NotEncodableError: a value is nested too deep.
    """
    for key in delta:
        _check_key(key)
    if delta and (wrong := flaw(dict(delta))) is not None:
        raise NotEncodableError("state_delta", wrong)


def split(delta: Mapping[str, Any]) -> Scopes:
    """Sort prefixed keys into their scopes."""
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


def _check_key(key: Any) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= MAX_ID or key in _BARE or not is_readable(key):
        raise InvalidIdError("state key", shown(key), f"use a text of 1 to {MAX_ID} printable characters behind the prefix")


def merge(scopes: Scopes) -> dict[str, Any]:
    """One mapping of all scopes, by prefixed keys."""
    merged = dict(scopes.session)
    merged.update((USER + key, value) for key, value in scopes.user.items())
    merged.update((APP + key, value) for key, value in scopes.app.items())
    merged.update((TEMP + key, value) for key, value in scopes.temp.items())
    return merged


def without_temp(delta: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a delta that is stored in events."""
    return {key: value for key, value in delta.items() if not key.startswith(TEMP)}


def only_temp(delta: Mapping[str, Any]) -> dict[str, Any]:
    """The `temp:` part of a delta, keys without their prefix."""
    return {key.removeprefix(TEMP): value for key, value in delta.items() if key.startswith(TEMP)}


def overwritten(state: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What a delta overwrites: per key its value in a list of one, or an empty list when it was not there."""
    return {key: [state[key]] if key in state else [] for key in delta}


def take_back(undos: list[Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    """What several deltas overwrote, as if they had been one. The undos come newest first; the oldest decides."""
    whole: dict[str, list[Any]] = {}
    for undo in undos:
        whole.update(undo)
    return whole
