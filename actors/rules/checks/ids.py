"""What can be a name or an id, wherever one enters.

Rules of this file:

- An id is a text for people or machines: e-mail addresses, UUIDs, names in any script, paths and URLs (`a/b:c`) all are ids.
- It is compared as it is, character by character: no case is folded and nothing is normalised, so no two users are ever one.
- Refused is what cannot be shown on one line as it is read: control characters, ends of lines, lone surrogates, and the marks
  that turn the direction of text. A store may escape an id for its own purposes; it need not fear what is in one.
- 256 characters are at most 1,024 bytes, so that the longest key of a table fits into an index of any database.
"""

from __future__ import annotations

import re
import reprlib
from typing import Any

from actors.errors import InvalidIdError
from actors.messages.session import SessionKey

MAX_ID = 256
"""Characters of an id, of the name of an agent and of a key of state."""

MAX_ARTIFACT_NAME = 1_024
"""Characters of the name of an artifact, which may be a whole path."""

_UNREADABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_APP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}")


def is_id(value: Any) -> bool:
    """True when the value can be an id."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID and is_readable(value) and value == value.strip()


def is_readable(text: str) -> bool:
    """True when the text can be shown on one line, as it is read."""
    return _UNREADABLE.search(text) is None


def checked_id(what: str, value: Any) -> str:
    """The value, if it can be an id. Raises InvalidIdError, which begins with `what`."""
    if not is_id(value):
        raise InvalidIdError(what, shown(value), f"use a text of 1 to {MAX_ID} printable characters without space around it")
    # Of an enum's member, too, its value.
    return str.__str__(value)


def checked_key(app_name: str, user_id: Any, session_id: Any) -> SessionKey:
    """The key of a session. Raises InvalidIdError."""
    return SessionKey(app_name, checked_id("user id", user_id), checked_id("session id", session_id))


def checked_app_name(app_name: Any) -> str:
    """The name, if it can be one: it is part of file names and of the names of actors. Raises InvalidIdError."""
    if not isinstance(app_name, str) or not _APP_NAME.fullmatch(app_name):
        rule = "use 1 to 128 letters, digits, '_', '-' and '.', the first a letter or digit"
        raise InvalidIdError("app name", shown(app_name), rule)
    return app_name


def checked_artifact_name(name: Any) -> str:
    """The name, if an artifact can have it: dots and slashes mean nothing in it. Raises InvalidIdError.

    That a name is empty the store says.
    """
    if not isinstance(name, str) or len(name) > MAX_ARTIFACT_NAME or not is_readable(name):
        raise InvalidIdError("artifact name", shown(name), f"use a text of at most {MAX_ARTIFACT_NAME} printable characters")
    return name


def shown(value: Any) -> str:
    """What a message tells of a value that is refused: as a text that can be encoded, and not all of it when it is long."""
    text = value if isinstance(value, str) else f"{type(value).__name__} {_represented(value)}"
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= 80 else f"{text[:80]}…"


def _represented(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except Exception:
        # Somebody's own class may raise anything; its name says enough.
        return ""
