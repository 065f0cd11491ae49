"""Lists of names in sentences, which stay short however many there are."""

from __future__ import annotations

from collections.abc import Sequence


def some_of(names: Sequence[str], most: int) -> str:
    """The first of some names, and how many others there are: `a, b and 3 more`.

    Args:
        most: how many are named.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
