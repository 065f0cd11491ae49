"""Searches lists page by page: stores have no index of parts of names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

SCANNED = 10_000
"""Entries that one request looks at. What it has not reached, the next page goes on with."""

PAGE = 1_000
"""Entries that are read at once."""


async def matching(
    read: Callable[[int, T | None], Awaitable[Sequence[T]]], fits: Callable[[T], bool], limit: int, before: T | None
) -> tuple[list[T], T | None]:
    """The entries of a list that fit.

    Args:
        read: so many entries after one.
        fits: whether an entry is looked for.
        limit: how many at most.
        before: after which one to begin; None: at the first.

    Returns:
        Those that fit, and the entry after which to go on; None at the end of the list.
    """
    found: list[T] = []
    for _ in range(SCANNED // PAGE):
        page = await read(PAGE, before)
        for before in page:
            if fits(before):
                found.append(before)
                if len(found) == limit:
                    return found, before
        if len(page) < PAGE:
            return found, None
    return found, before


def has_text(text: str, *values: str) -> bool:
    """True when one of the values contains the text, in letters of either case."""
    wanted = text.casefold()
    return any(wanted in value.casefold() for value in values)
