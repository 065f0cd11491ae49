"""Makes transactions: in the store's thread, or at once on the event loop where nothing else waits for either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.errors import StoreUnavailableError
from actors.interfaces.store_abilities.commits_at_once import CommitsAtOnce
from actors.interfaces.stores import SessionStore
from actors.rules.capacity.lone_commits import LoneCommits
from actors.session.store.store_thread import StoreThread

PASSES = 2
"""Passes of the event loop before a commit on it: what this one has put into connections is on its way by then."""


class Transactions:
    """Makes one transaction after the other.

    Args:
        store: what they are for.
        thread: calls it.
        clock: seconds that go on, whatever this process does.
    """

    def __init__(self, store: SessionStore, thread: StoreThread, clock: Callable[[], float]) -> None:
        self._store = store if isinstance(store, CommitsAtOnce) else None
        self._thread = thread
        self._clock = clock
        self._lone = LoneCommits()

    async def make(self, transaction: Callable[[], None], writes: int) -> None:
        """Make a transaction of so many writes. Raises what it raises, once the store was waited for."""
        if self._store_at_once() is not None:
            for _ in range(PASSES):
                await asyncio.sleep(0)
            # Something else may have asked for the store meanwhile.
            store = self._store_at_once()
            if store is not None and self._has_made(store, transaction, writes):
                return
        began_s = self._clock()
        await self._thread.call(transaction, writing=True)
        self._lone.note(writes, self._clock() - began_s)

    def _store_at_once(self) -> CommitsAtOnce | None:
        """The store, where the event loop may wait for a commit to it now."""
        store = self._store
        if store is None or not (self._lone.may_be_at_once and self._thread.is_idle and store.commits_at_once):
            return None
        return store

    def _has_made(self, store: CommitsAtOnce, transaction: Callable[[], None], writes: int) -> bool:
        """Make a transaction on the event loop. False when the store has to be waited for, which its thread does."""
        began_s = self._clock()
        try:
            with store.without_waiting():
                self._thread.call_here(transaction)
        except StoreUnavailableError:
            return False
        finally:
            self._lone.note(writes, self._clock() - began_s)
        return True
