"""The valid name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nlargest
from itertools import pairwise

FEW = 256
"""Of more names than that, only so many are compared letter by letter: with ten thousand it would take 0.15 s."""


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """ " Did you mean 'x'?" for the valid name nearest to `name`, or "" when none is near."""
    nearest = get_close_matches(name, _candidates(name, list(valid)), n=1)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


def _candidates(name: str, valid: list[str]) -> list[str]:
    """Those that have most pairs of letters in common with a name, in their order; all, if they are few."""
    if len(valid) <= FEW:
        return valid
    # A model may have made up a name of any length.
    pairs = {first + second for first, second in pairwise(name[:FEW])} or {name}
    return nlargest(FEW, valid, key=lambda each: sum(map(each.__contains__, pairs)) / (len(each) + len(pairs)))
