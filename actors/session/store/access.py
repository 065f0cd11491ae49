"""The Session actor's one way to its store: calls in one thread, group commits, and ends of turns that wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from actors.errors import ActorLostError, StoreError, StoreInUseError, WriterReplacedError
from actors.interfaces.records import Write
from actors.interfaces.stores import SessionStore
from actors.messages.session import SessionKey
from actors.session.store.claimed_store import ClaimedStore, ClaimRenewal
from actors.session.store.group_commit import GroupCommit, Transaction
from actors.session.store.pending_turn_ends import PendingTurnEnds
from actors.session.store.store_thread import StoreThread

logger = logging.getLogger(__name__)

T = TypeVar("T")


class StoreAccess:
    """Reads and writes a session store, which is used in one thread only.

    Args:
        store: where logs last.
        timeout_s: how long it may be away: see `StoreThread`. Calls that fail then raise StoreUnavailableError.
        writer: the place that is taken in it: see `ClaimedStore`.
        on_replaced: called when another process has taken that place.
        clock: seconds that go on, whatever this process does.
        on_late_write: awaited by what is to be written after `close`, before it is refused.

    Attributes:
        commits: takes the writes of logs.
        pending_ends: takes the ends of turns that could not be written.
        after_commit: awaited after each commit before anybody hears of it, also when its outcome is not known.
        on_first_use: awaited when the store was used first, before anybody hears what it has; None: nothing is.
    """

    def __init__(
        self,
        store: SessionStore,
        timeout_s: float,
        writer: str = "",
        on_replaced: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_late_write: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.store = store
        self._clock = clock
        self._on_replaced = on_replaced
        self._on_late_write = on_late_write
        self._claimed = ClaimedStore(store, writer)
        self._thread = StoreThread(self._claimed, "store", timeout_s)
        self._compare: Callable[[], None] = lambda: None
        self.after_commit: Callable[[Sequence[Write]], Awaitable[None]] | None = None
        self.on_first_use: Callable[[], Awaitable[None]] | None = None
        self._first_use: asyncio.Future[None] | None = None
        self._has_place = False
        self._verified_s: float | None = None
        self.commits = GroupCommit(self._commit, self._take_as_it_is)
        self._renewal = ClaimRenewal(store, bool(writer), self._thread, on_replaced, self.commits.note_reverted)
        self.pending_ends = PendingTurnEnds(store, self._thread)

    def on_reverted(self, compare: Callable[[], None], loss: Callable[[SessionKey], Awaitable[StoreError | None]]) -> None:
        """Say what happens when the store has gone back to an older copy of itself.

        Args:
            compare: called before anything is written to the older copy.
            loss: says, before a session is written to, why it may not be; None: it may.
        """
        self._compare = compare
        self.commits.loss = loss

    async def open(self) -> None:
        """Open the store, if it is not open yet. Raises StoreError."""
        self._claimed.takes_place = True
        await self._thread.open()
        self._renewal.begin_renewal()
        await self._used_first()

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """Call a method of the store that changes nothing, in the store's thread. Raises StoreError."""
        answer = await self._thread.call(function, *args)
        if self._claimed.takes_place:
            self._renewal.begin_renewal()
            await self._used_first()
        return answer

    async def write(self, function: Callable[..., T], *args: Any) -> T:
        """Call a method of the store that changes what is stored, in the store's thread. It may run twice. Raises StoreError."""
        await self._check_place()
        try:
            return await self._thread.call(function, *args, writing=True)
        except WriterReplacedError:
            if self._on_replaced is not None:
                self._on_replaced()
            raise

    async def take_place(self) -> None:
        """Open the store, so that no other process writes in this one's place any more. Raises StoreError."""
        if not self._has_place:
            await self._thread.open()
            self._has_place = True

    async def verified_s(self, within_s: float) -> float | None:
        """When this process was known to be the writer of its place, by `clock`; None: it is not known.

        Args:
            within_s: if that is longer ago, the store is asked.
        """
        if self._verified_s is None or self._clock() - self._verified_s > within_s:
            began_s = self._clock()
            self._verified_s = began_s if await self._renewal.renew_once() else None
        return self._verified_s

    async def close(self) -> None:
        """Write what waits, then close the store, and leave the place in it. A store that is away is not waited for.

        Reading opens it again without the place, which others may have then: programs read the ends of their turns late.
        """
        self._thread.stop_retrying()
        await self._renewal.end_renewal()
        await self.commits.drain()
        await self.pending_ends.close()
        self._claimed.takes_place = False
        await self._thread.close()

    async def _used_first(self) -> None:
        """Do what has to be done when the store was used first."""
        if self.on_first_use is None:
            return
        if self._first_use is None:
            self._first_use = asyncio.ensure_future(self.on_first_use())
        # Those who wait may be cancelled.
        await asyncio.shield(self._first_use)
        self.on_first_use = None

    async def _check_place(self) -> None:
        """Refuse to write what comes when the place was left. Raises ActorLostError."""
        if self._claimed.takes_place:
            return
        if self._on_late_write is not None:
            await self._on_late_write()
        raise ActorLostError("the Session actor", "it has stopped")

    async def _take_as_it_is(self) -> None:
        """Go on with a store that has gone back. Raises StoreError."""
        logger.error("%s has gone back to an older copy of itself, as after a fail-over to a replica that lags", self.store)
        self._compare()
        try:
            await self._thread.call(self._claimed.claim, writing=True)
        except StoreInUseError as error:
            if self._on_replaced is not None:
                self._on_replaced()
            raise WriterReplacedError(self._claimed.writer) from error

    async def _commit(self, writes: Sequence[Write]) -> None:
        await self._check_place()
        began_s = self._clock()
        try:
            await self._thread.call(Transaction(self.store, writes), writing=True)
            if self._verified_s is not None:
                # A store that has claims looks at its own with each commit.
                self._verified_s = began_s
        except WriterReplacedError:
            if self._on_replaced is not None:
                self._on_replaced()
            raise
        finally:
            if self.after_commit is not None:
                await self.after_commit(writes)
