"""What the seeds of a simulation say of the code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def failing(check: Callable[[int], Sequence[str]], seeds: Iterable[int]) -> dict[int, str]:
    """The seeds for which something does not hold, each with the first that does not.

    Args:
        check: says what does not hold for a seed.
    """
    return {seed: found[0] for seed in seeds if (found := check(seed))}
