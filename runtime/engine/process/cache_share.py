"""How much of the memory for caches that a node has each of them may take. No clock, no files: decisions only.

- A cache that needs little leaves the rest to others: what counts is what they take, not how many there are.
- No cache has to take less than an even share.
- Where none takes more than it may, all together take no more than there is.
"""

from __future__ import annotations

from collections.abc import Iterable


def cache_share(max_bytes: int, others: Iterable[int]) -> int:
    """The bytes that a cache may take: the most with which the others keep what they have, up to as much as it has itself.

    Args:
        max_bytes: of all caches together.
        others: bytes that each of the others takes.
    """
    weights = sorted(others)
    left = max_bytes
    for number, weight in enumerate(weights):
        even = left // (len(weights) - number + 1)
        if weight >= even:
            return even
        left -= weight
    return left
