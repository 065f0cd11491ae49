"""What a cache keeps, and what it lets go of first: by weight and by idleness. No clock, no effects: decisions only.

- What was used least recently goes first, as soon as all together are too heavy, or it has been idle for too long.
- What is in use stays, and counts as just used. A cache may be too heavy when all that is in it is in use; it is looked
  through again when as much has been used as it has entries, so that no use costs more than a few.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

OVERHEAD = 4_096
"""Bytes that a process needs for an entry beside what is in it."""


class _Kept(NamedTuple):
    weight: int
    used_s: float


class CacheEviction(Generic[K]):
    """See the head of this file. It knows names and weights; whoever has the things themselves acts on what it says.

    Args:
        most: bytes of all together.
        idle_s: seconds without use after which something goes, however light it is.

    Attributes:
        weight: bytes of all together, each with its overhead.
    """

    def __init__(self, most: int, idle_s: float) -> None:
        self._most = most
        self._idle_s = idle_s
        self._kept: OrderedDict[K, _Kept] = OrderedDict()
        self._rest = 0
        self.weight = 0

    def __len__(self) -> int:
        return len(self._kept)

    def use(self, key: K, weight: int, now_s: float) -> None:
        """Something is used now, and weighs so much."""
        self.drop(key)
        self._kept[key] = _Kept(weight + OVERHEAD, now_s)
        self.weight += weight + OVERHEAD
        self._rest -= 1

    def drop(self, key: K) -> None:
        """It is kept no more."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.weight -= kept.weight

    def surplus(self, now_s: float) -> Iterator[K]:
        """What has to go, one after the other: `drop` it, or `use` it if it is in use. It ends when the rest may stay."""
        if not self._is_due(now_s):
            return
        for _ in range(len(self._kept)):
            yield next(iter(self._kept))
            if not self._is_due(now_s):
                return
        self._rest = len(self._kept)

    def _is_due(self, now_s: float) -> bool:
        if not self._kept:
            return False
        is_heavy = self.weight > self._most and self._rest <= 0
        return is_heavy or now_s - next(iter(self._kept.values())).used_s >= self._idle_s
