"""What can be the id of a user or a session."""

from __future__ import annotations

from typing import Any

from actors.errors import InvalidIdError
from actors.messages.session import SessionKey

MAX_ID = 256


def checked_key(app_name: str, user_id: str, session_id: str) -> SessionKey:
    """The key of a session. Raises InvalidIdError."""
    return SessionKey(app_name, checked_id("user id", user_id), checked_id("session id", session_id))


def checked_id(what: str, value: Any) -> str:
    """An id that can be one. Raises InvalidIdError."""
    if not isinstance(value, str) or not value or len(value) > MAX_ID or not value.isprintable() or value != value.strip():
        raise InvalidIdError(what, value, f"use a text of 1 to {MAX_ID} printable characters without space around it")
    return value
