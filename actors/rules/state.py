"""Scopes of session state (semantics.md section 6): plain keys, `user:`, `app:` and `temp:`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

APP = "app:"
USER = "user:"
TEMP = "temp:"

MISSING = object()


class Scopes(NamedTuple):
    """State by scope, keys without their prefix."""

    session: dict[str, Any]
    user: dict[str, Any]
    app: dict[str, Any]
    temp: dict[str, Any]


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
