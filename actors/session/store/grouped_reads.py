"""Reads of many requests in one go: each is a round trip to the store, in which all others wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar, cast

from actors.errors import StoreUnavailableError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Tell = Callable[[V | None, Exception | None], None]
"""Takes the value of a key, or the error."""

AT_ONCE = 200
"""Keys of one read: what else waits for the store waits so long."""


class GroupedReads(Generic[K, V]):
    """Reads values by their keys. Requests that come while the store is being read share the next read.

    Args:
        read: reads the values of some keys, each once. Nothing may be awaited after it that the values depend on.
    """

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._read = read
        self._waiting: list[tuple[K, Tell[V]]] = []
        self._is_reading = False
        self._reading: asyncio.Task[None] | None = None

    async def of(self, key: K) -> V:
        """The value of a key, read after this was called. Raises what `read` raises."""
        if self._is_reading:
            found: asyncio.Future[V] = asyncio.get_running_loop().create_future()
            self._waiting.append((key, partial(_settle, found)))
            return await found
        # Most requests are alone, and need no task.
        self._is_reading = True
        try:
            return (await self._read([key]))[key]
        finally:
            self._is_reading = bool(self._waiting)
            if self._waiting:
                self._begin()

    def ask(self, key: K, tell: Tell[V]) -> None:
        """The same for a caller that does not wait. All that ask in one pass of the event loop share a read.

        Args:
            tell: called in the step in which the store was read. It raises nothing.
        """
        self._waiting.append((key, tell))
        if not self._is_reading:
            self._is_reading = True
            self._begin()

    def _begin(self) -> None:
        self._reading = asyncio.create_task(self._read_all())

    async def _read_all(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            try:
                found = await self._read(list(dict.fromkeys(key for key, _ in waiting)))
            except Exception as error:
                if len(waiting) == 1 or isinstance(error, StoreUnavailableError):
                    for _, tell in waiting:
                        tell(None, error)
                else:
                    # One that cannot be read takes no others with it.
                    await asyncio.gather(*(self._read_alone(key, tell) for key, tell in waiting))
                continue
            for key, tell in waiting:
                tell(found[key], None)
        self._is_reading = False

    async def _read_alone(self, key: K, tell: Tell[V]) -> None:
        try:
            found = await self._read([key])
        except Exception as error:
            tell(None, error)
            return
        tell(found[key], None)


def _settle(future: asyncio.Future[V], value: V | None, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(cast(V, value))
