"""Reads of many requests in one go: each is a round trip to the store, in which all others wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from actors.errors import StoreUnavailableError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

AT_ONCE = 200
"""Keys of one read: what else waits for the store waits so long."""


class GroupedReads(Generic[K, V]):
    """Reads values by their keys. Requests that come while the store is being read share the next read.

    Args:
        read: reads the values of some keys, each once. Nothing may be awaited after it that the values depend on.
    """

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._read = read
        self._waiting: list[tuple[K, asyncio.Future[V]]] = []
        self._is_reading = False
        self._reading: asyncio.Task[None] | None = None

    async def of(self, key: K) -> V:
        """The value of a key, read after this was called. Raises what `read` raises."""
        if self._is_reading:
            found: asyncio.Future[V] = asyncio.get_running_loop().create_future()
            self._waiting.append((key, found))
            return await found
        # Most requests are alone, and need no task.
        self._is_reading = True
        try:
            return (await self._read([key]))[key]
        finally:
            self._is_reading = bool(self._waiting)
            if self._waiting:
                self._reading = asyncio.create_task(self._read_all())

    async def _read_all(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            try:
                values = await self._read(list(dict.fromkeys(key for key, _ in waiting)))
            except Exception as error:
                if len(waiting) == 1 or isinstance(error, StoreUnavailableError):
                    for _, found in waiting:
                        _fail(found, error)
                else:
                    # One that cannot be read takes no others with it.
                    await asyncio.gather(*(self._read_alone(key, found) for key, found in waiting))
                continue
            for key, found in waiting:
                if not found.done():
                    found.set_result(values[key])
        self._is_reading = False

    async def _read_alone(self, key: K, found: asyncio.Future[V]) -> None:
        try:
            values = await self._read([key])
        except Exception as error:
            _fail(found, error)
        else:
            if not found.done():
                found.set_result(values[key])


def _fail(found: asyncio.Future[Any], error: Exception) -> None:
    if not found.done():
        found.set_exception(error)
