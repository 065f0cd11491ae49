"""The valid name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """ " Did you mean 'x'?" for the valid name nearest to `name`, or "" when none is near."""
    nearest = get_close_matches(name, list(valid), n=1)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""
