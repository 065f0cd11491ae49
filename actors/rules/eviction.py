"""What a cache keeps and what it evicts first: by weight and by idleness. No clock, no effects: decisions only.

- The least recently used entry goes first, as soon as all entries together are too heavy, or it has been idle for too long.
- An entry in use stays, and counts as just used. A cache whose entries are all in use may be too heavy; it is looked through
  again after as many uses as it has entries, so that no use costs more than a few steps.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

OVERHEAD = 4_096
"""Bytes that a process needs for an entry beside its content."""


class LruDict(Generic[K, V]):
    """Keeps the `max_entries` entries that were read or written last.

    Args:
        max_entries: from 1.
    """

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """The keys, the least recently used first."""
        return iter(self._entries)

    def get(self, key: K) -> V | None:
        """The value, which counts as used now; None when there is none."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Remove an entry. Returns its value; None when there was none."""
        return self._entries.pop(key, None)

    def clear(self) -> None:
        """Remove every entry."""
        self._entries.clear()


class _Entry(msgspec.Struct, gc=False):
    weight: int
    used_s: float


class CacheEviction(Generic[K]):
    """Decides which entries of a cache go. It knows keys and weights only; the cache itself removes what this names.

    Args:
        max_bytes: of all entries together; it may be changed at any time.
        idle_s: seconds without use after which an entry goes, however light it is.

    Attributes:
        weight: bytes of all entries together, each with its overhead.
    """

    def __init__(self, max_bytes: int, idle_s: float) -> None:
        self.max_bytes = max_bytes
        self._idle_s = idle_s
        self._entries: OrderedDict[K, _Entry] = OrderedDict()
        self._uses_to_rest = 0
        # No entry has been idle for long before this time: the first one only gets younger.
        self._idle_from_s = -math.inf
        self.weight = 0

    def __len__(self) -> int:
        return len(self._entries)

    def use(self, key: K, weight: int, now_s: float) -> None:
        """Note that an entry of that weight is used now."""
        before = self._entries.pop(key, None)
        heavy = weight + OVERHEAD
        self._entries[key] = _Entry(heavy, now_s)
        self.weight += heavy if before is None else heavy - before.weight
        self._uses_to_rest -= 1

    def used_s(self, key: K) -> float:
        """When the use of an entry was noted last."""
        return self._entries[key].used_s

    def drop_key(self, key: K) -> None:
        """Note that an entry is no longer in the cache."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.weight -= entry.weight

    def surplus(self, now_s: float) -> Iterator[K]:
        """The entries that have to go, one after the other, until the rest may stay.

        The caller has to `drop_key` each, or to `use` it when it is in use.
        """
        if not self.is_due(now_s):
            return
        for _ in range(len(self._entries)):
            yield next(iter(self._entries))
            if not self.is_due(now_s):
                return
        self._uses_to_rest = len(self._entries)

    def is_due(self, now_s: float) -> bool:
        """True when there are entries that have to go."""
        if self.weight > self.max_bytes and self._uses_to_rest <= 0:
            return bool(self._entries)
        if now_s < self._idle_from_s or not self._entries:
            return False
        self._idle_from_s = next(iter(self._entries.values())).used_s + self._idle_s
        return now_s >= self._idle_from_s


class Cache(Protocol):
    """A cache whose size may change.

    Attributes:
        max_bytes: that it may take. When this gets less, it is that small after its next use.
    """

    @property
    def weight(self) -> int:
        """Bytes that it takes."""
        ...

    max_bytes: int
