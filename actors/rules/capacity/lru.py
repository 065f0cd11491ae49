"""A dictionary of limited length that forgets the least recently used entry."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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
