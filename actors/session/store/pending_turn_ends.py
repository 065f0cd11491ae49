"""Write-behind for ends of turns that could not be stored because the store was away.

No request waits for them: a turn has ended for its driver when the driver gets the outcome. But if the record kept saying
`running`, recovery would run a finished turn again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from actors.errors import StoreError, StoreRevertedError, StoreUnavailableError
from actors.interfaces.records import PutTurn, TurnFilter, TurnRow
from actors.interfaces.stores import SessionStore
from actors.messages.session import SessionKey
from actors.session.store.store_thread import StoreThread

logger = logging.getLogger(__name__)

PAUSE_S = 1.0
"""How long to wait between two attempts."""

_Where = tuple[SessionKey, str, int]
"""A turn, and its epoch."""


class PendingTurnEnds:
    """Ends of turns that wait for the store to come back.

    Args:
        store: used in `thread`.
        pause: how to wait; by default in real time.
    """

    def __init__(
        self, store: SessionStore, thread: StoreThread, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._store = store
        self._thread = thread
        self._pause = pause
        self._pending: dict[_Where, PutTurn] = {}
        # Of these the turns that may never have been open in the store.
        self._doubtful: set[_Where] = set()
        self._flusher: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def has(self, key: SessionKey, invocation_id: str, epoch: int) -> bool:
        """True when the turn has ended in that epoch and the store does not know it yet."""
        return (key, invocation_id, epoch) in self._pending

    def owes_end(self, key: SessionKey, invocation_id: str = "") -> bool:
        """True when the turn, or any of the session, has ended, in whichever epoch, and the store does not know it yet."""
        return any(each == key and invocation_id in ("", of) for each, of, _ in self._pending)

    def newest(self, key: SessionKey, stored: TurnRow) -> TurnRow:
        """The record of a turn: the one that is stored, or that of its end, if the store does not know that yet."""
        if stored.status != "running":
            return stored
        # One that was resumed may have got no further there than the epoch before. One that is doubtful has then not begun.
        owed = [
            record.row
            for where, record in self._pending.items()
            if where[:2] == (key, stored.invocation_id)
            and (where[2] == stored.epoch or (where[2] > stored.epoch and where not in self._doubtful))
        ]
        return max(owed, key=lambda row: row.epoch, default=stored)

    def of(self, wanted: TurnFilter) -> list[tuple[SessionKey, TurnRow]]:
        """Ends that the store does not know yet, of turns of an app, or of its user or session. None that is doubtful."""
        known = (record for where, record in self._pending.items() if where not in self._doubtful)
        return [(record.key, record.row) for record in known if wanted.concerns(record.key)]

    def owes(self, wanted: TurnFilter) -> bool:
        """True while there are any ends of turns of an app, or of its user or session."""
        return any(wanted.concerns(key) for key, _, _ in self._pending)

    def add(self, record: PutTurn, *, is_doubtful: bool = False) -> None:
        """Have the end of a turn stored when that is possible, unless the stored turn has a later epoch by then.

        Args:
            is_doubtful: the turn could not be opened, and may be open in the store all the same.
        """
        where = record.key, record.row.invocation_id, record.row.epoch
        self._pending[where] = record
        (self._doubtful.add if is_doubtful else self._doubtful.discard)(where)
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush_later())

    def forget_ends(self, key: SessionKey, invocation_id: str, epoch: int) -> None:
        """The turn is open in that epoch: its ends in older ones need not be stored any more."""
        for where in [each for each in self._pending if each[:2] == (key, invocation_id) and each[2] < epoch]:
            self._drop(where)

    def forget_attempt(self, key: SessionKey, invocation_id: str, epoch: int) -> None:
        """The turn is about to be opened in that epoch, and may run then: its end was that of an attempt that has failed."""
        where = key, invocation_id, epoch
        if where in self._doubtful:
            self._drop(where)

    def _drop(self, where: _Where) -> None:
        del self._pending[where]
        self._doubtful.discard(where)

    async def flush(self, *, waits: bool = False) -> None:
        """Try to store all of them now. One that is refused is kept.

        Args:
            waits: as writes do, for a store that is away.

        Raises:
            StoreUnavailableError, StoreRevertedError: nothing can be stored.
        """
        for where, record in list(self._pending.items()):
            if self._pending.get(where) is not record:
                continue
            try:
                await self._thread.call(self._store_end, record, writing=True, waits=waits)
            except (StoreUnavailableError, StoreRevertedError):
                raise
            except StoreError as error:
                # What was wrong may pass, and without its end the turn would be open until this actor is lost.
                logger.error("the end of turn %s could not be stored, and is tried again: %s", record.row.invocation_id, error)
                continue
            if self._pending.get(where) is record:
                self._drop(where)

    async def close(self) -> None:
        """Try once more, then give up."""
        if self._flusher is not None:
            self._flusher.cancel()
            with suppress(asyncio.CancelledError):
                await self._flusher
        with suppress(StoreError):
            await self.flush()
        for key, invocation_id, _ in self._pending:
            logger.error("the end of turn %s in session %s was never stored", invocation_id, key.session)

    async def _flush_later(self) -> None:
        while self._pending:
            await self._pause(PAUSE_S)
            with suppress(StoreUnavailableError, StoreRevertedError):
                await self.flush()

    def _store_end(self, record: PutTurn) -> None:
        """Store one end, in the store's thread."""
        stored = self._store.turn(record.key, record.row.invocation_id)
        if stored is not None and stored.status == "running" and stored.epoch <= record.row.epoch:
            self._store.commit([record])
