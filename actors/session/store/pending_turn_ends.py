"""Ends of turns that could not be stored when they came, because the store was away; they are stored once it is back.

Nobody waits for them: a turn has ended for its driver when its driver is told so. But a record that says `running` for
ever would have a turn taken up again that is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from actors.errors import StoreError, StoreUnavailableError
from actors.interfaces.records import PutTurn
from actors.interfaces.stores import SessionStore
from actors.messages.session import SessionKey
from actors.session.store.store_thread import StoreThread

logger = logging.getLogger(__name__)

PAUSE_S = 1.0
"""How long to wait between two tries."""


class PendingTurnEnds:
    """What is owed to a store.

    Args:
        store: to be used in `thread`.
        pause: how to wait; by default in real time.
    """

    def __init__(
        self, store: SessionStore, thread: StoreThread, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._store = store
        self._thread = thread
        self._pause = pause
        self._owed: dict[tuple[SessionKey, str], PutTurn] = {}
        self._payer: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._owed)

    def owes(self, key: SessionKey, invocation_id: str) -> bool:
        """True when a turn has ended of which the store does not know."""
        return (key, invocation_id) in self._owed

    def add(self, record: PutTurn) -> None:
        """Have the end of a turn stored when that is possible, unless somebody has taken the turn up by then."""
        self._owed[record.key, record.row.invocation_id] = record
        if self._payer is None or self._payer.done():
            self._payer = asyncio.create_task(self._pay_all())

    async def close(self) -> None:
        """Try once more, and give up."""
        if self._payer is not None:
            self._payer.cancel()
            with suppress(asyncio.CancelledError):
                await self._payer
        with suppress(StoreError):
            await self._pay()
        for key, invocation_id in self._owed:
            logger.error("the end of turn %s in session %s was never stored", invocation_id, key.session)

    async def _pay_all(self) -> None:
        while self._owed:
            await self._pause(PAUSE_S)
            with suppress(StoreUnavailableError):
                await self._pay()

    async def _pay(self) -> None:
        for where, record in list(self._owed.items()):
            try:
                await self._thread.call(self._settle, record, writing=True, waits=False)
            except StoreUnavailableError:
                raise
            except StoreError as error:
                logger.error("the end of turn %s cannot be stored: %s", record.row.invocation_id, error)
            if self._owed.get(where) is record:
                del self._owed[where]

    def _settle(self, record: PutTurn) -> None:
        """In the store's thread."""
        stored = self._store.turn(record.key, record.row.invocation_id)
        if stored is not None and stored.status == "running" and stored.epoch == record.row.epoch:
            self._store.commit([record])
