"""All logs of the Session actor: those in memory, and the store behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from actors.errors import SessionExistsError, SessionNotFoundError, StoreError
from actors.interfaces.records import CallRow, CreateSession, PutState, PutTurn, SessionRow, TurnRow, Write
from actors.interfaces.stores import SessionStore
from actors.messages.event import USER, now_s
from actors.messages.limits import DEFAULT_LIMITS
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.subscriptions import TurnRead
from actors.messages.session import SessionKey
from actors.rules.capacity.eviction import CacheEviction
from actors.rules.checks import state as scopes
from actors.session.log.event_scan import EventScan, scan
from actors.session.log.open_turn import OpenTurn
from actors.session.log.session_log import SessionLog
from actors.session.store.group_commit import GroupCommit, Transaction
from actors.session.store.pending_turn_ends import PendingTurnEnds
from actors.session.store.store_thread import StoreThread

IDLE_S = 600.0
"""A log that nobody has touched for so long leaves memory."""

FRESH_S = 5.0
"""A log that was touched so lately stays: somebody may be waiting for something beside it."""

PAGE = 1_000
"""Events that are read from the store for one reply, unless they are large."""

PAGE_BYTES = 4_000_000
"""About how large a reply may become."""

FIRST_READ = 16
"""Events that are read first: how large they are tells how many more a reply has room for."""

TURN_PAGE = 100
"""The same for subscribers that are late. What they have no room for is read again."""

T = TypeVar("T")


class SharedState(dict[str, Any]):
    """The state of an app, or of a user: one object for all their sessions."""

    __slots__ = ("__weakref__",)


class SessionLogs:
    """Finds, makes and writes logs. The store is used in one thread, which it has for itself.

    Args:
        store: where logs last.
        timeout_s: how long it may be away: see `StoreThread`. What fails then raises StoreUnavailableError.
        max_bytes: how much of logs is kept in memory. Those that turns run in stay, however many they are, but shortened.
        clock: seconds that only go forward; by default those of the event loop.
        is_shared: others write other logs into the store, and change the state that their sessions have in common with these.
    """

    def __init__(
        self,
        store: SessionStore,
        timeout_s: float,
        max_bytes: int = DEFAULT_LIMITS.max_cache_bytes,
        clock: Callable[[], float] | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        self.store = store
        self.is_shared = is_shared
        self._clock = clock
        self._thread = StoreThread(store, "store", timeout_s)
        self._debts = PendingTurnEnds(store, self._thread)
        self._commits = GroupCommit(self._commit)
        self._hot: dict[SessionKey, SessionLog] = {}
        self._keeping: CacheEviction[SessionKey] = CacheEviction(max_bytes, IDLE_S)
        self._locks: dict[SessionKey, tuple[asyncio.Lock, list[None]]] = {}
        # They go with the last log that has them.
        self._shared: WeakValueDictionary[SessionKey, SharedState] = WeakValueDictionary()

    @property
    def counts(self) -> dict[str, int]:
        """Figures by name."""
        return {
            "commits": self._commits.commits,
            "sessions_in_memory": len(self._hot),
            "bytes_in_memory": self._keeping.weight,
            "shared_states": len(self._shared),
            "ends_owed": len(self._debts),
        }

    def all_in_memory(self) -> list[SessionLog]:
        """All logs that are in memory."""
        return list(self._hot.values())

    def in_memory(self, key: SessionKey) -> SessionLog | None:
        """The log, if it is in memory."""
        return self._hot.get(key)

    async def take_up(self, key: SessionKey, *, auto_create: bool = False) -> SessionLog:
        """The log, in memory and as the store has it.

        Raises:
            SessionNotFoundError: there is no such session, and it is not to be created.
        """
        hot = await self.find(key)
        if hot is not None:
            return hot
        if not auto_create:
            raise SessionNotFoundError(key.app, key.user, key.session)
        return await self._create(key, {}, exist_ok=True)

    async def find(self, key: SessionKey) -> SessionLog | None:
        """The log, in memory and as the store has it; None when there is no such session."""
        hot = self._hot.get(key)
        if hot is not None and not hot.is_stale:
            self._used(hot)
            return hot
        async with self._locked(key):
            hot = self._hot.get(key)
            if hot is None or hot.is_stale:
                row = await self.read(self.store.session, key)
                if row is None:
                    return None
                hot = await self._load(row, hot)
            return hot

    async def create(self, key: SessionKey, state: Mapping[str, Any]) -> SessionLog:
        """Make a session. Raises SessionExistsError."""
        return await self._create(key, state, exist_ok=False)

    async def _create(self, key: SessionKey, state: Mapping[str, Any], *, exist_ok: bool) -> SessionLog:
        async with self._locked(key):
            hot = self._hot.get(key)
            if hot is None and (row := await self.read(self.store.session, key)) is not None:
                hot = await self._load(row, None)
            if hot is not None:
                if exist_ok:
                    return hot
                raise SessionExistsError(key.app, key.user, key.session)
            created_s = now_s()
            row = SessionRow(key=key, head_seq=0, rewinds=0, authors=(), state={}, created_s=created_s, updated_s=created_s)
            hot = SessionLog(row, *await self.shared_state(key))
            delta = hot.fold(scopes.split(state))
            self._commits.clear_failure(key)
            await self.write(hot, [CreateSession(key, created_s), *delta])
            self._keep(hot)
            return hot

    async def _load(self, row: SessionRow, stale: SessionLog | None) -> SessionLog:
        shared = await self.shared_state(row.key, again=stale is not None)
        if stale is None:
            hot = SessionLog(row, *shared)
            await self._find_open_turn(hot)
            self._keep(hot)
        else:
            hot = stale
            if hot.turn is not None:
                await self.recall(hot.key, hot.turn)
            hot.reload(row, *shared)
        self._commits.clear_failure(row.key)
        return hot

    async def _find_open_turn(self, hot: SessionLog) -> None:
        """A turn that the store has as running was open when the Session actor was lost, or the whole deployment."""
        row = await self.read(self.store.running_turn, hot.key)
        if row is not None and not self._debts.owes(hot.key, row.invocation_id):
            turn = OpenTurn.of(row)
            await self.recall(hot.key, turn)
            hot.turn = turn
            hot.is_taken = True

    async def recall(self, key: SessionKey, turn: OpenTurn) -> None:
        """Note what the store has of a turn, and forget what was noted before."""
        noted: list[tuple[EventScan, int]] = []
        after_seq = turn.row.first_seq - 1
        while page := await self.page(key, after_seq):
            # A turn that was paused long ago has thousands of others' events behind it.
            scanned = ((scan(stored.raw), stored.seq) for stored in page)
            noted += [(event, seq) for event, seq in scanned if event.invocation_id == turn.row.invocation_id]
            after_seq = page[-1].seq
        turn.forget()
        for event, seq in noted:
            turn.note(event, seq)

    def _keep(self, hot: SessionLog) -> None:
        self._hot[hot.key] = hot
        self._used(hot)

    def _used(self, hot: SessionLog) -> None:
        """The log is used now; others have to go, if they take too much room beside it."""
        now_s = hot.used_s = self._clock() if self._clock is not None else asyncio.get_running_loop().time()
        self._keeping.use(hot.key, hot.weight, now_s)
        for key in self._keeping.surplus(now_s):
            other = self._hot[key]
            if other.is_idle() and not other.unwritten and now_s - other.used_s >= FRESH_S:
                self.forget(key)
            else:
                other.shorten()
                self._keeping.use(key, other.weight, now_s)

    def forget(self, key: SessionKey) -> None:
        """Have the log no longer in memory."""
        self._hot.pop(key, None)
        self._keeping.drop(key)

    async def shared_state(self, key: SessionKey, *, again: bool = False) -> tuple[SharedState, SharedState]:
        """The app's and the user's state: one object each for all their sessions that are in memory.

        Args:
            again: read it from the store, also if it is in memory.
        """
        scopes_of_key = (SessionKey(key.app, "", ""), SessionKey(key.app, key.user, ""))
        of_app, of_user = (self._shared.get(scope) for scope in scopes_of_key)
        if again or of_app is None or of_user is None:
            found = await self.read(self.store.state, key.app, key.user)
            of_app, of_user = (self._read(scope, stored, again) for scope, stored in zip(scopes_of_key, found, strict=True))
        return of_app, of_user

    def _read(self, scope: SessionKey, stored: Mapping[str, Any], again: bool) -> SharedState:
        """A shared state that was read. What somebody else has read meanwhile may have been changed since, and is left alone."""
        known = self._shared.get(scope)
        if known is None or again:
            known = self._shared.setdefault(scope, SharedState())
            known.clear()
            known.update(stored)
            # What sessions here have changed, and is written next, may not be lost from memory.
            for write in self._commits.unsettled():
                if isinstance(write, PutState) and write.key == scope:
                    known.update(write.values)
        return known

    # ------------------------------------------------------------------------------------------------- writing
    async def add(
        self,
        hot: SessionLog,
        events: Sequence[tuple[bytes, EventScan]],
        writes: Sequence[Write],
        show: Callable[[Sequence[StoredEvent]], None],
    ) -> int:
        """Give events their places and store them together with `writes`; then readers may see them.

        Args:
            show: called with all of them once they are on disk.

        Returns:
            The place of the first.
        """
        first_seq = hot.head_seq + 1
        placed: list[StoredEvent] = []
        all_writes: list[Write] = []
        for raw, event in events:
            stored, of_event = hot.add(raw, event)
            placed.append(stored)
            all_writes += of_event

        def settle() -> None:
            for stored in placed:
                hot.settle(stored)
            if self._hot.get(hot.key) is hot:
                self._used(hot)
            show(placed)

        await self.write(hot, [*all_writes, *writes], settle)
        return first_seq

    async def write(self, hot: SessionLog, writes: Sequence[Write], then: Callable[[], None] = lambda: None) -> None:
        """Have writes of a log on disk."""
        hot.unwritten += 1
        try:
            await self._commits.submit(hot.key, writes, then)
        except Exception:
            # Memory is ahead of the store now; it is read again when the log is touched, and what others share with it at once.
            hot.is_stale = True
            if any(isinstance(write, PutState) and not write.key.session for write in writes):
                await self._reread_shared(hot.key)
            raise
        finally:
            hot.unwritten -= 1

    async def _reread_shared(self, key: SessionKey) -> None:
        try:
            await self.shared_state(key, again=True)
        except StoreError:
            # Nobody may go on with what was never stored: every log that shares it is read again with it.
            for other in self._hot.values():
                other.is_stale = other.is_stale or other.key.app == key.app
            raise

    def owe(self, record: PutTurn) -> None:
        """The end of a turn could not be written: have it written when the store is back, if the turn is still running there."""
        self._debts.add(record)

    async def flush(self) -> None:
        """Wait until nothing waits to be written."""
        await self._commits.flush()

    # ------------------------------------------------------------------------------------------------- reading
    async def events(self, key: SessionKey, **which: Any) -> list[StoredEvent]:
        """Events of a log as the store has them: see SessionStore.events."""
        rows = await self.read(lambda: self.store.events(key, **which))
        return [StoredEvent(seq, raw) for seq, raw in rows]

    async def page(self, key: SessionKey, after_seq: int, most: int = PAGE) -> list[StoredEvent]:
        """The events behind a place, at most so many, and fewer when they are large; none when there are no more."""
        page = await self.events(key, after_seq=after_seq, limit=FIRST_READ)
        if len(page) == FIRST_READ:
            size = sum(len(stored.raw) for stored in page)
            room = min(most, FIRST_READ * PAGE_BYTES // (size + 1)) - FIRST_READ
            if room > 0:
                page += await self.events(key, after_seq=page[-1].seq, limit=room)
        return page

    async def said(self, key: SessionKey, invocation_id: str, after_seq: int) -> TurnRead:
        """A page of what a turn's agents have said behind a place. Raises SessionNotFoundError."""
        hot = await self.take_up(key)
        page = hot.behind(after_seq)
        more = False
        if page is None:
            page = await self.page(key, after_seq, TURN_PAGE)
            more = bool(page) and page[-1].seq < hot.settled_seq
        scanned = ((stored, scan(stored.raw)) for stored in page)
        told = [stored for stored, event in scanned if event.invocation_id == invocation_id and event.author != USER]
        return TurnRead(events=told, read_to_seq=page[-1].seq if page else after_seq, more=more)

    async def turn(self, key: SessionKey, invocation_id: str) -> TurnRow | None:
        """The record of a turn, or None."""
        await self.flush()
        return await self.read(self.store.turn, key, invocation_id)

    async def running(self, app: str) -> list[tuple[SessionKey, TurnRow]]:
        """All turns of an app that have not ended."""
        await self.flush()
        return await self.read(self.store.running, app)

    async def call(self, key: SessionKey, call_id: str) -> CallRow | None:
        """Who made a call, or None."""
        await self.flush()
        return await self.read(self.store.call, key, call_id)

    async def place(self, key: SessionKey, event_id: str) -> tuple[int, str] | None:
        """The place and the invocation id of an event, or None."""
        await self.flush()
        return await self.read(self.store.place, key, event_id)

    async def authors(self, key: SessionKey, before_seq: int) -> list[str]:
        """The authors before a place, the most recent first."""
        return await self.read(self.store.authors, key, before_seq)

    # ------------------------------------------------------------------------------------------------- the store
    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """Call a method of the store that changes nothing, in the store's thread."""
        return await self._thread.call(function, *args)

    async def _commit(self, writes: Sequence[Write]) -> None:
        await self._thread.call(Transaction(self.store, writes), writing=True)

    async def close(self) -> None:
        """Write what waits, and let go of the store. One that is away is not waited for."""
        self._thread.stop_retrying()
        await self._commits.flush()
        await self._debts.close()
        await self._thread.close()

    @asynccontextmanager
    async def _locked(self, key: SessionKey) -> AsyncIterator[None]:
        """One at a time per session; the lock goes with the last who wants it."""
        lock, users = self._locks.setdefault(key, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                self._locks.pop(key, None)
