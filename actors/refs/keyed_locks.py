"""Locks by key: what comes first for a session goes first."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class _Lock(asyncio.Lock):
    """A lock that is there as long as something holds it or waits for it: `users` of them."""

    users = 0


class KeyedLocks(Generic[K]):
    """One lock for each key, given in the order in which it was asked for. A lock that is free is given without a pause."""

    def __init__(self) -> None:
        self._held: dict[K, _Lock] = {}

    def is_held(self, key: K) -> bool:
        """True while something holds the lock of a key."""
        return key in self._held

    def locked(self, key: K) -> Locked[K]:
        """An async context manager, inside whose block there is one at a time per key."""
        return Locked(self._held, key)


class Locked(Generic[K]):
    """One use of a lock. A class, since each turn enters some: an async generator costs the event loop four times as much."""

    __slots__ = ("_held", "_key")

    def __init__(self, held: dict[K, _Lock], key: K) -> None:
        self._held = held
        self._key = key

    async def __aenter__(self) -> None:
        """Wait for the lock."""
        lock = self._held.setdefault(self._key, _Lock())
        lock.users += 1
        try:
            await lock.acquire()
        except BaseException:
            self._leave(lock)
            raise

    async def __aexit__(self, *_: object) -> None:
        """Give the lock to the next one."""
        lock = self._held[self._key]
        lock.release()
        self._leave(lock)

    def _leave(self, lock: _Lock) -> None:
        lock.users -= 1
        if not lock.users:
            del self._held[self._key]
