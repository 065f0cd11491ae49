"""Whose data a request to a Session actor is about: by that it finds the actor that answers it, and the store of the user."""

from __future__ import annotations

from typing import Any

from actors.messages.protocol.request import ABOUT_USERS, Request, Route
from actors.messages.session import SessionKey


def user_of(request: Request[Any]) -> tuple[str, str] | None:
    """The app and the user that a request is about; None: it is about none, or about all of them."""
    if request.route not in ABOUT_USERS:
        return None
    key = key_of(request)
    return (key.app, key.user) if request.route is Route.SESSION or _field(request, "user") is not None else None


def key_of(request: Request[Any]) -> SessionKey:
    """The session that a request is about; of one about users in general a key with what it names of them."""
    if request.route is Route.SESSION:
        named = request if hasattr(request, "key") else _field(request, "turn")
        key = named.key
        assert isinstance(key, SessionKey)
        return key
    return SessionKey(_field(request, "app"), _field(request, "user") or "", _field(request, "session") or "")


def _field(request: Request[Any], name: str) -> Any:
    return getattr(request, name, None)
