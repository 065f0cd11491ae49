"""Names of tools that every model's service takes: OpenAI and Anthropic refuse dots, Gemini refuses a digit at the beginning."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from hashlib import sha256

MOST = 64
"""Characters that a name may have."""

_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MOST - 1}}}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_DIGITS = 8


def flaw_of_name(name: str) -> str | None:
    """Why services refuse a name, with one that they take; None for a name that they take."""
    if _NAME.fullmatch(name):
        return None
    rule = f"use at most {MOST} of the letters a to z, digits, '_' and '-', and begin with a letter or '_'"
    return f"services of models refuse the name {name!r} of a tool: {rule}, such as {safe_name(name)!r}"


def safe_name(name: str) -> str:
    """The name that stands for one that services refuse: always the same, and another one for another long name."""
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode()
    safe = _NOT_IN_NAMES.sub("_", plain) or "tool"
    safe = safe if safe[0].isalpha() or safe[0] == "_" else f"_{safe}"
    return safe if len(safe) <= MOST else _with_digest(safe, name)


def safe_names(names: Iterable[str]) -> list[str]:
    """The names of the tools of one server as models see them: those that services take stay, and no two become one."""
    given = list(names)
    taken = {name for name in given if _NAME.fullmatch(name)}
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
    return f"{safe[: MOST - _DIGITS - 1]}_{digest}"
