"""Locks by key: what comes first for a session goes first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_Waiting = deque[asyncio.Future[None]] | None
"""What waits for a lock that is held; None: nothing has yet."""


class KeyedLocks(Generic[K]):
    """One lock for each key, given in the order in which it was asked for. A lock that is free is given without a pause."""

    def __init__(self) -> None:
        self._held: dict[K, _Waiting] = {}

    def is_held(self, key: K) -> bool:
        """True while something holds the lock of a key."""
        return key in self._held

    def locked(self, key: K) -> Locked[K]:
        """An async context manager, inside whose block there is one at a time per key."""
        return Locked(self._held, key)


class Locked(Generic[K]):
    """One use of a lock.

    A class, since each turn enters some: an async generator costs the event loop four times as much. A lock for which nothing
    waits, the usual one, is a key and no object.
    """

    __slots__ = ("_held", "_key")

    def __init__(self, held: dict[K, _Waiting], key: K) -> None:
        self._held = held
        self._key = key

    async def __aenter__(self) -> None:
        """Wait for the lock."""
        held, key = self._held, self._key
        if key not in held:
            held[key] = None
            return
        waiting = held[key]
        if waiting is None:
            waiting = held[key] = deque()
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(place)
        try:
            await place
        except BaseException:
            if place.done() and not place.cancelled():
                # It was given at the same time.
                self._give_on()
            else:
                with suppress(ValueError):
                    waiting.remove(place)
            raise

    async def __aexit__(self, *_: object) -> None:
        """Give the lock to the next one."""
        if self._held[self._key] is None:
            del self._held[self._key]
        else:
            self._give_on()

    def _give_on(self) -> None:
        waiting = self._held[self._key]
        while waiting:
            place = waiting.popleft()
            if not place.done():
                # It stays held: what comes in between waits after this one.
                place.set_result(None)
                return
        del self._held[self._key]
