"""The Session actor's one way to its store: its place in it, calls in one thread, group commits, and ends of turns that wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from actors.errors import (
    ActorLostError,
    StoreError,
    StoreInUseError,
    StoreRevertedError,
    StoreUnavailableError,
    WriterReplacedError,
)
from actors.interfaces.clock import loop_time_s
from actors.interfaces.stores import LogStore, PutTurn, TurnFilter, TurnRow, Write
from actors.messages.session import SessionKey
from actors.session.store.group_commit import GroupCommit, Transaction
from actors.session.store.store_thread import StoreThread

logger = logging.getLogger(__name__)

T = TypeVar("T")

PAUSE_S = 1.0
"""How long to wait between two attempts to store the ends of turns."""

_Where = tuple[SessionKey, str, int]
"""A turn, and its epoch."""


class _PendingEnd(NamedTuple):
    """The end of a turn that is still to be stored.

    Attributes:
        also: what is stored with it.
        then: called when that is done.
        is_doubtful: the turn may never have been open in the store.
    """

    record: PutTurn
    also: Sequence[Write]
    then: Callable[[], None]
    is_doubtful: bool


class PendingTurnEnds:
    """Write-behind for ends of turns that could not be stored because the store was away.

    No request waits for them: a turn has ended for its driver when the driver gets the outcome. But if the record kept saying
    `running`, recovery would run a finished turn again.
    """

    def __init__(self, store: LogStore, write: Callable[..., Awaitable[None]]) -> None:
        self._store = store
        self._write = write
        self._pending: dict[_Where, _PendingEnd] = {}
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
            end.record.row
            for where, end in self._pending.items()
            if where[:2] == (key, stored.invocation_id)
            and (where[2] == stored.epoch or (where[2] > stored.epoch and not end.is_doubtful))
        ]
        return max(owed, key=lambda row: row.epoch, default=stored)

    def of(self, wanted: TurnFilter) -> list[tuple[SessionKey, TurnRow]]:
        """Ends that the store does not know yet, of turns of an app, or of its user or session. None that is doubtful."""
        known = (end.record for end in self._pending.values() if not end.is_doubtful)
        return [(record.key, record.row) for record in known if wanted.concerns(record.key)]

    def owes(self, wanted: TurnFilter) -> bool:
        """True while there are any ends of turns of an app, or of its user or session."""
        return any(wanted.concerns(key) for key, _, _ in self._pending)

    def add(
        self,
        record: PutTurn,
        also: Sequence[Write] = (),
        then: Callable[[], None] = lambda: None,
        *,
        is_doubtful: bool = False,
    ) -> None:
        """Have the end of a turn stored when that is possible, unless the stored turn has a later epoch by then.

        Args:
            also: what is stored with it. `then`: called when that is done.
            is_doubtful: the turn could not be opened, and may be open in the store all the same.
        """
        where = record.key, record.row.invocation_id, record.row.epoch
        self._pending[where] = _PendingEnd(record, also, then, is_doubtful)
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush_later())

    def forget_ends(self, key: SessionKey, invocation_id: str, epoch: int) -> None:
        """The turn is open in that epoch: its ends in older ones need not be stored any more."""
        for where in [each for each in self._pending if each[:2] == (key, invocation_id) and each[2] < epoch]:
            del self._pending[where]

    def forget_attempt(self, key: SessionKey, invocation_id: str, epoch: int) -> None:
        """The turn is about to be opened in that epoch, and may run then: its end was that of an attempt that has failed."""
        where = key, invocation_id, epoch
        if where in self._pending and self._pending[where].is_doubtful:
            del self._pending[where]

    async def settle(self, key: SessionKey) -> None:
        """Store those of a session, so that its next turn is not open in the store beside another. Raises StoreError."""
        for where, end in list(self._pending.items()):
            if where[0] == key:
                await self._settle(where, end, waits=True)

    async def flush(self) -> None:
        """Try to store all of them now. One that is refused is kept.

        Raises:
            StoreUnavailableError, StoreRevertedError: nothing can be stored.
        """
        for where, end in list(self._pending.items()):
            try:
                await self._settle(where, end)
            except (StoreUnavailableError, StoreRevertedError):
                raise
            except StoreError as error:
                # What was wrong may pass, and without its end the turn would be open until this actor is lost.
                logger.error("the end of turn %s could not be stored, and is tried again: %s", where[1], error)

    async def _settle(self, where: _Where, end: _PendingEnd, *, waits: bool = False) -> None:
        """Store one, if it is still pending. `waits`: as writes do, for a store that is away. Raises StoreError."""
        if self._pending.get(where) is not end:
            return
        await self._write(self._store_end, end, waits=waits)
        if self._pending.get(where) is end:
            del self._pending[where]
        end.then()

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
            await asyncio.sleep(PAUSE_S)
            with suppress(StoreUnavailableError, StoreRevertedError):
                await self.flush()

    def _store_end(self, end: _PendingEnd) -> None:
        """Store one end, in the store's thread."""
        record = end.record
        stored = self._store.turn(record.key, record.row.invocation_id)
        if stored is not None and stored.status == "running" and stored.epoch <= record.row.epoch:
            self._store.commit([record, *end.also])


class ClaimRenewal:
    """Renews the claim of a store for as long as the store is in use. A store whose claims do not run out has nothing to renew.

    Args:
        is_claimed: it has the place of a writer.
        on_replaced: called when another process has taken the place.
        on_reverted: called when the store has gone back to an older copy of itself.
    """

    def __init__(
        self,
        store: LogStore,
        is_claimed: bool,
        thread: StoreThread,
        on_replaced: Callable[[], None],
        on_reverted: Callable[[], None],
    ) -> None:
        self._on_reverted = on_reverted
        self._store = store
        self._is_claimed = is_claimed
        self._thread = thread
        self._on_replaced = on_replaced
        self._task: asyncio.Task[None] | None = None

    def begin_renewal(self) -> None:
        """Renew the claim from now on, if it has to be. The store is open."""
        if self._task is None and self._store.renew_s is not None:
            self._task = asyncio.create_task(self._renew(self._store.renew_s))

    async def end_renewal(self) -> None:
        """Renew it no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def renew_once(self) -> bool:
        """Renew the claim now. Returns whether it is this process's; False also of a store without claims."""
        if not self._is_claimed:
            return False
        try:
            await self._thread.attempt(self._store.renew_claim)
        except WriterReplacedError:
            self._is_claimed = False
            self._on_replaced()
        except StoreRevertedError:
            self._on_reverted()
        except StoreError:
            # Requests tell of a store that is away.
            logger.debug("the claim could not be renewed", exc_info=True)
        else:
            return True
        return False

    async def _renew(self, renew_s: float) -> None:
        while self._is_claimed:
            await asyncio.sleep(renew_s)
            await self.renew_once()


class ClaimedStore:
    """Opens a session store and takes a writer's place in it; closes it and leaves the place.

    A process lives on for a moment, or for longer behind a cut cable, when Ray has given its node up and has started another one
    in its place. Where a store fences writers, nothing that it commits afterwards is stored.

    Args:
        store: used in one thread.
        writer: the place; "": none is taken.

    Attributes:
        takes_place: False opens the store only.
    """

    def __init__(self, store: LogStore, writer: str) -> None:
        self._store = store
        self.writer = writer
        self.takes_place = True

    def __str__(self) -> str:
        return str(self._store)

    def open(self) -> None:
        """Open the store. Raises what `LogStore.open` and `LogStore.claim` raise."""
        self._store.open()
        if not self.takes_place:
            return
        try:
            self.claim()
        except BaseException:
            self._store.close()
            raise

    def claim(self) -> None:
        """Take the place, also once more. Raises what `LogStore.claim` raises."""
        if self.writer:
            self._store.claim(self.writer)

    def close(self) -> None:
        """Close the store."""
        if self.writer:
            # What is left of the place does no harm.
            with suppress(StoreError):
                self._store.give_up_claim()
        self._store.close()


class StoreAccess:
    """Reads and writes a session store, which is used in one thread only.

    Args:
        timeout_s: how long it may be away: see `StoreThread`. Calls that fail then raise StoreUnavailableError.
        writer: the place that is taken in it: see `ClaimedStore`.
        on_replaced: called when another process has taken that place.
        on_late_write: awaited by what is to be written after `close`, before it is refused.

    Attributes:
        commits: takes the writes of logs.
        pending_ends: takes the ends of turns that could not be written.
        after_commit: awaited after each commit before anybody hears of it, also when its outcome is not known.
        on_first_use: awaited when the store was used first, before anybody hears what it has; None: nothing is.
    """

    def __init__(
        self,
        store: LogStore,
        timeout_s: float,
        writer: str = "",
        on_replaced: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = loop_time_s,
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
        self.pending_ends = PendingTurnEnds(store, self.write)

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

    async def write(self, function: Callable[..., T], *args: Any, waits: bool = True) -> T:
        """Call a method of the store that changes what is stored, in the store's thread. It may run twice. Raises StoreError.

        Args:
            waits: for a store that is away.
        """
        await self._check_place()
        return await self._change(function, *args, waits=waits)

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
            self._on_replaced()
            raise WriterReplacedError(self._claimed.writer) from error

    async def _commit(self, writes: Sequence[Write]) -> None:
        await self._check_place()
        began_s = self._clock()
        try:
            await self._change(Transaction(self.store, writes))
            if self._verified_s is not None:
                # A store that has claims looks at its own with each commit.
                self._verified_s = began_s
        finally:
            if self.after_commit is not None:
                await self.after_commit(writes)

    async def _change(self, function: Callable[..., T], *args: Any, waits: bool = True) -> T:
        try:
            return await self._thread.call(function, *args, writing=True, waits=waits)
        except WriterReplacedError:
            self._on_replaced()
            raise
