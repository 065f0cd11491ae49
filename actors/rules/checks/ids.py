"""Which names and ids are valid, wherever one enters.

Rules of this file:

- An id is a text for people or machines: e-mail addresses, UUIDs, names in any script, paths and URLs (`a/b:c`) are ids.
- Ids are compared character by character: no case is folded and nothing is normalised, so two users are never taken for one.
- Refused is what cannot be shown on one line: control characters, ends of lines, lone surrogates, and the marks that change the
  direction of text; and what shows nothing at all, such as a zero-width space. A store that needs stricter names escapes ids
  itself.
- What is refused of new ids only may be stored already: reading and deleting take it (`checked_known_id`, `checked_known_key`).
- OpenAI and Anthropic refuse dots in names of tools, and Gemini a digit at the beginning: tools have names that all of them take.
- 256 characters are at most 1,024 bytes, so that the longest key of a table fits into an index of any database.
"""

from __future__ import annotations

import re
import reprlib
import unicodedata
from collections.abc import Iterable
from hashlib import sha256
from typing import TypeGuard

from actors.errors import InvalidIdError
from actors.messages.session import SessionKey

MAX_ID = 256
"""Characters of an id, of an agent's name and of a key of state."""

MAX_ARTIFACT_NAME = 1_024
"""Characters of an artifact's name, which may be a whole path."""

_UNREADABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_FILLERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that are blank: fillers of Hangul, and Braille's pattern without dots."""

_APP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}")


def is_id(value: object) -> TypeGuard[str]:
    """True when the value is a valid id, also a new one."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID:
        return False
    # Most ids are of ASCII characters: to search them costs four times as much.
    if value.isascii() and value.isprintable() and value == value.strip():
        return True
    return _is_known_id(value) and _shows_anything(value)


def _is_known_id(value: object) -> TypeGuard[str]:
    """True when the value is an id that earlier versions took."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID and value == value.strip() and is_readable(value)


def _shows_anything(text: str) -> bool:
    return any(char not in _FILLERS and unicodedata.category(char) not in ("Cf", "Zs") for char in text)


def is_readable(text: str) -> bool:
    """True when the text can be shown on one line."""
    return _UNREADABLE.search(text) is None


def checked_id(what: str, value: object) -> str:
    """The value, if it is a valid id.

    Args:
        what: what the id names, for the error: "user id".
        value: the id to check.

    Raises:
        InvalidIdError: it is not valid.
    """
    if not is_id(value):
        raise _invalid(what, value)
    # The plain text, also of a member of an enum of texts.
    return str.__str__(value)


def checked_known_id(what: str, value: object) -> str:
    """The same for an id under which something may be stored already. Raises InvalidIdError."""
    if not _is_known_id(value):
        raise _invalid(what, value)
    return str.__str__(value)


def _invalid(what: str, value: object) -> InvalidIdError:
    return InvalidIdError(what, printable(value), f"use a text of 1 to {MAX_ID} printable characters without space around it")


def checked_known_key(app_name: str, user_id: object, session_id: object) -> SessionKey:
    """The key of a session that may be stored already. Raises InvalidIdError when one of the ids is not valid."""
    return SessionKey(app_name, checked_known_id("user id", user_id), checked_known_id("session id", session_id))


def checked_key(app_name: str, user_id: object, session_id: object) -> SessionKey:
    """The key of a session. Raises InvalidIdError when one of the ids is not valid."""
    return SessionKey(app_name, checked_id("user id", user_id), checked_id("session id", session_id))


def checked_app_name(app_name: object) -> str:
    """The name, if an app can have it: it becomes part of file names and of actors' names.

    Raises:
        InvalidIdError: it is not valid.
    """
    if not isinstance(app_name, str) or not _APP_NAME.fullmatch(app_name):
        rule = "use 1 to 128 letters, digits, '_', '-' and '.', the first a letter or digit"
        raise InvalidIdError("app name", printable(app_name), rule)
    return app_name


def checked_artifact_name(name: object) -> str:
    """The name, if an artifact can have it. Dots and slashes mean nothing in it, and an empty name is left to the store to
    refuse.

    Raises:
        InvalidIdError: it is not valid.
    """
    if not isinstance(name, str) or len(name) > MAX_ARTIFACT_NAME or not is_readable(name):
        raise InvalidIdError("artifact name", printable(name), f"use a text of at most {MAX_ARTIFACT_NAME} printable characters")
    return name


def printable(value: object) -> str:
    """A value that was refused, for an error: a text that can be encoded, cut to 80 characters."""
    text = value if isinstance(value, str) else f"{type(value).__name__} {_represented(value)}"
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= 80 else f"{text[:80]}…"


def _represented(value: object) -> str:
    try:
        return reprlib.repr(value)
    except Exception:
        # A user's own class, whose __repr__ raises; the name of the class has to do.
        return ""


MAX_TOOL_NAME = 64
"""Characters of a tool's name."""

_TOOL_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_TOOL_NAME - 1}}}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_DIGITS = 8


def flaw_of_name(name: str) -> str | None:
    """Why services refuse a name, with one that they take; None for a name that they take."""
    if _TOOL_NAME.fullmatch(name):
        return None
    rule = f"use at most {MAX_TOOL_NAME} of the letters a to z, digits, '_' and '-', and begin with a letter or '_'"
    return f"services of models refuse the name {name!r} of a tool: {rule}, such as {safe_name(name)!r}"


def safe_name(name: str) -> str:
    """The name that stands for one that services refuse: always the same, and another one for another long name."""
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode()
    safe = _NOT_IN_NAMES.sub("_", plain) or "tool"
    safe = safe if safe[0].isalpha() or safe[0] == "_" else f"_{safe}"
    return safe if len(safe) <= MAX_TOOL_NAME else _with_digest(safe, name)


def safe_names(names: Iterable[str]) -> list[str]:
    """The names of the tools of one server as models see them: those that services take stay, and no two become one."""
    given = list(names)
    taken = {name for name in given if _TOOL_NAME.fullmatch(name)}
    safe: list[str] = []
    for name in given:
        shown = name if name in taken else safe_name(name)
        if shown != name and shown in taken:
            shown = _with_digest(shown, name)
        taken.add(shown)
        safe.append(shown)
    return safe


def _with_digest(safe: str, name: str) -> str:
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{safe[: MAX_TOOL_NAME - _DIGITS - 1]}_{digest}"
