"""Locks by key: what comes first for a session goes first."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class _Lock(asyncio.Lock):
    """A lock, and how many hold it or wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.users = 0


class KeyedLocks(Generic[K]):
    """One lock for each key, given in the order in which it was asked for. A lock that is free is given without a pause."""

    def __init__(self) -> None:
        self._locks: dict[K, _Lock] = {}

    def locked(self, key: K) -> Locked[K]:
        """An async context manager, inside whose block there is one at a time per key. The lock goes with its last user."""
        return Locked(self._locks, key)


class Locked(Generic[K]):
    """One use of a lock.

    A class, since each turn enters some: an async generator costs the event loop four times as much.
    """

    __slots__ = ("_key", "_lock", "_locks")

    def __init__(self, locks: dict[K, _Lock], key: K) -> None:
        self._locks = locks
        self._key = key

    async def __aenter__(self) -> None:
        """Wait for the lock."""
        lock = self._locks.get(self._key)
        if lock is None:
            lock = self._locks[self._key] = _Lock()
        self._lock = lock
        lock.users += 1
        try:
            await lock.acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        """Give the lock to the next one."""
        self._lock.release()
        self._leave()

    def _leave(self) -> None:
        self._lock.users -= 1
        if not self._lock.users:
            self._locks.pop(self._key, None)
