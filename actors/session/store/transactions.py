"""Makes transactions: in the store's thread, or at once on the event loop where nothing else waits for either."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from actors.interfaces.records import Write
from actors.interfaces.store_abilities.commits_at_once import CommitsAtOnce
from actors.interfaces.stores import SessionStore
from actors.rules.capacity.lone_commits import LoneCommits
from actors.session.store.store_thread import StoreThread

logger = logging.getLogger(__name__)


class Transactions:
    """Makes one transaction after the other.

    Args:
        store: what they are for.
        thread: calls it.
        clock: seconds that go on, whatever this process does.
    """

    def __init__(self, store: SessionStore, thread: StoreThread, clock: Callable[[], float]) -> None:
        self._commit = store.commit
        self._at_once = store if isinstance(store, CommitsAtOnce) else None
        self._thread = thread
        self._clock = clock
        self._lone = LoneCommits()

    async def make(self, transaction: Callable[[], None], writes: int) -> None:
        """Make a transaction of so many writes in the store's thread. Raises what it raises, once the store was waited for."""
        began_s = self._clock()
        await self._thread.call(transaction, writing=True)
        self._lone.note(writes, self._clock() - began_s)

    def may_commit(self) -> bool:
        """Whether the event loop may wait for the next transaction."""
        return self._at_once is not None and self._lone.may_be_at_once and self._is_at_hand(self._at_once)

    def has_committed(self, writes: Sequence[Write]) -> bool:
        """Make a transaction on the event loop. False when the store's thread has to make it.

        That knows what is to be done about a store that is locked, or away, and about writes that were stored nevertheless.
        """
        store = self._at_once
        # Something else may have asked for the store since `may_commit`.
        if store is None or not self._is_at_hand(store):
            return False
        began_s = self._clock()
        try:
            with store.without_waiting():
                self._thread.call_here(self._commit, writes)
        except Exception:
            logger.debug("a transaction could not be made at once", exc_info=True)
            return False
        finally:
            self._lone.note(len(writes), self._clock() - began_s)
        return True

    def _is_at_hand(self, store: CommitsAtOnce) -> bool:
        return self._thread.is_idle and store.commits_at_once
