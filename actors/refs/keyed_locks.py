"""Locks by key: what comes first for a session goes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class KeyedLocks(Generic[K]):
    """One lock for each key, given in the order in which it was asked for. A lock that is free is given without a pause."""

    def __init__(self) -> None:
        self._locks: dict[K, tuple[asyncio.Lock, list[None]]] = {}

    @asynccontextmanager
    async def locked(self, key: K) -> AsyncIterator[None]:
        """One at a time per key; the lock goes with the last that waits for it."""
        lock, users = self._locks.setdefault(key, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                self._locks.pop(key, None)
