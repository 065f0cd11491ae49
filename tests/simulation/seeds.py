"""What the seeds of a simulation say of the code, and of a defect that is put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager


def failing(check: Callable[[int], Sequence[str]], seeds: Iterable[int]) -> dict[int, str]:
    """The seeds for which something does not hold, each with the first that does not.

    Args:
        check: says what does not hold for a seed.
    """
    return {seed: found[0] for seed in seeds if (found := check(seed))}


def finding_seed(
    fails: Callable[[int], object], defect: Callable[[], AbstractContextManager[object]], known: int, seeds: Iterable[int]
) -> int | None:
    """A seed that fails while a defect is in the code; None: there is none.

    Args:
        fails: plays a seed; true when it fails.
        known: one that has found the defect. Where it finds it no more, since the code has changed, another one may.
        seeds: the others.
    """
    with defect():
        return next((seed for seed in (known, *seeds) if fails(seed)), None)
