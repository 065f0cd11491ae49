"""The logs of all sessions: a cache over the store, and the one way to write to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from actors.actor import KeyedLocks
from actors.errors import SessionExistsError, SessionNotFoundError, StoreConflictError
from actors.interfaces.clock import loop_time_s
from actors.interfaces.stores import CreateSession, PutState, SessionRow, TurnRow, Write
from actors.messages.config import DEFAULT_LIMITS
from actors.messages.event import now_s
from actors.messages.json_types import JsonMapping
from actors.messages.session import SessionKey
from actors.rules.checks import state as scopes
from actors.rules.eviction import Cache, CacheEviction
from actors.session.log.reader import LogReader, SessionReads, States
from actors.session.log.session_log import SessionLog
from actors.session.log.shared_state import SharedStates
from actors.session.store.access import StoreAccess

IDLE_S = 600.0
"""A log that was not used for so long leaves memory."""

FRESH_S = 5.0
"""A log that was used so lately stays: a request may be waiting for the store and use it again."""


class SessionLogs:
    """Finds, creates and writes logs, and keeps those in use in memory.

    When a change cannot be stored, memory is ahead of the store, and the log is read again.

    Args:
        max_bytes: room for logs in memory. Logs with an open turn stay, however many there are, but without their tail.

    Attributes:
        held: what must be awaited before a turn begins in a session, or it is created; None: nothing. A feature that is removing
            the session sets it.
        creating: of sessions that are being created; done when that is over.
        compare: awaited before a log is used that `is_unchecked`; None: nothing compares logs with the store.
        on_reload: called with a log that was read again after a write had failed, and the record of its open turn where the
            store has none that is open. What the store has of it may be more than was shown to anybody: a write whose outcome
            could not be told counts as failed, and may have been done.
        before_load: awaited before the log of a session comes into memory: features read what they have of it.
        on_gone: called with a log whose session the store does not have any more, for the same reason.
    """

    def __init__(
        self,
        access: StoreAccess,
        reader: LogReader,
        shared: SharedStates,
        max_bytes: int = DEFAULT_LIMITS.max_cache_bytes,
        clock: Callable[[], float] = loop_time_s,
    ) -> None:
        self._access = access
        self._reader = reader
        self._shared = shared
        self._clock = clock
        self._logs: dict[SessionKey, SessionLog] = {}
        self._eviction: CacheEviction[SessionKey] = CacheEviction(max_bytes, IDLE_S)
        self._locks: KeyedLocks[SessionKey] = KeyedLocks()
        self.creating: dict[SessionKey, asyncio.Future[None]] = {}
        self.on_reload: Callable[[SessionLog, TurnRow | None], None] = lambda _, ended: None
        self.on_gone: Callable[[SessionLog], None] = lambda _: None
        self.held: Callable[[SessionKey], Awaitable[None] | None] = lambda _: None
        self._reads = SessionReads(access, reader, shared)
        self.compare: Callable[[SessionLog], Awaitable[None]] | None = None
        self.before_load: list[Callable[[SessionKey], Awaitable[None]]] = []

    @property
    def cache(self) -> Cache:
        """It decides which logs stay in memory."""
        return self._eviction

    @property
    def counts(self) -> dict[str, int]:
        """Figures by name."""
        return {
            "commits": self._access.commits.commits,
            "sessions_in_memory": len(self._logs),
            "bytes_in_memory": self._eviction.weight,
            "shared_states": len(self._shared),
            "ends_owed": len(self._access.pending_ends),
        }

    def all_in_memory(self, *, in_use: bool = False) -> list[SessionLog]:
        """All logs that are in memory. `in_use`: those whose queues are taken, as they are while a turn is open or waits."""
        return [log for log in self._logs.values() if log.queue.is_taken or not in_use]

    def in_memory(self, key: SessionKey) -> SessionLog | None:
        """The log, if it is in memory."""
        return self._logs.get(key)

    def is_loading(self, key: SessionKey) -> bool:
        """True while the log is on its way into memory."""
        return self._locks.is_held(key)

    async def load(self, key: SessionKey) -> SessionLog:
        """The log of a session, in memory and as the store has it.

        Raises:
            SessionNotFoundError: there is no such session.
            StoreError: the store cannot be read.
        """
        log = await self.find(key)
        if log is None:
            raise SessionNotFoundError(key.app, key.user, key.session)
        return log

    async def find_or_new(self, key: SessionKey) -> SessionLog:
        """The log of a session; when there is none, that of a new one, which its first write creates.

        Until then nothing else knows of the new log, so nothing may be awaited before that write. Raises StoreError.
        """
        log = await self.find(key, is_new=True)
        assert log is not None
        return log

    async def find(self, key: SessionKey, *, is_new: bool = False) -> SessionLog | None:
        """The same; None when there is no such session, or with `is_new` the log of a new one. Raises StoreError."""
        while True:
            if (creating := self.creating.get(key)) is not None:
                # Not there before it is on disk.
                await asyncio.wait([creating])
                continue
            log = self._logs.get(key)
            if log is not None and not log.is_stale:
                log.used_s = self._clock()
                return log
            async with self._locks.locked(key):
                if key not in self.creating:
                    log = self._logs.get(key)
                    if log is not None and log.is_unchecked and self.compare is not None:
                        await self.compare(log)
                    return log if log is not None and not log.is_stale else await self._read(key, log, is_new)

    async def _read(self, key: SessionKey, stale: SessionLog | None, is_new: bool) -> SessionLog | None:
        for read in self.before_load:
            await read(key)
        if is_new and stale is None:
            found, shared = await self._reads.new(key)
        else:
            found, shared = await self._reads.one(key, again=stale is not None)
        if found.row is not None:
            return await self._loaded(found.row, found.running, stale, shared)
        if stale is not None:
            self.evict(key)
            self.on_gone(stale)
        if not is_new:
            return None
        return _new_log(key, shared)

    async def _loaded(self, row: SessionRow, running: TurnRow | None, stale: SessionLog | None, shared: States) -> SessionLog:
        turn = stale.turn if stale is not None else self._reader.open_turn(row.key, running)
        ended: TurnRow | None = None
        if stale is not None and not stale.unwritten and turn is not None:
            if running is not None:
                turn.restore(running)
            else:
                ended = await self._access.read(self._access.store.turn, row.key, turn.row.invocation_id)
        newest_s = await self._reader.recall(row.key, turn) if turn is not None else 0.0
        if stale is None:
            log = SessionLog(row, *shared)
            log.turn = turn
            log.queue.is_taken = turn is not None
            self._keep(log)
        else:
            log = stale
            log.reload(row, *shared)
            self.on_reload(log, ended)
        # The store notes the time with the records of turns, and events came after that of the turn.
        log.updated_s = max(log.updated_s, newest_s)
        self._access.commits.clear_failure(row.key)
        return log

    async def create(self, key: SessionKey, state: JsonMapping, check: Callable[[SessionLog], None]) -> SessionLog:
        """Create a session, unless `check` of the new log raises. Raises SessionExistsError, StoreError."""
        while True:
            log = await self.find_or_new(key)
            if log.creation is None:
                raise SessionExistsError(key.app, key.user, key.session)
            if (held := self.held(key)) is None:
                check(log)
                await self._create(log, log.creation, log.fold(scopes.split(state)), may_exist=True)
                return log
            await held

    def write(self, log: SessionLog, writes: Sequence[Write], then: Callable[[], None] = lambda: None) -> Awaitable[None]:
        """Write changes of a log, all or none, with the session itself if that is new. It has to be awaited.

        Args:
            then: called once they are on disk.

        Raises:
            StoreError: nothing is stored.
        """
        if log.creation is not None:
            return self._create(log, log.creation, writes, then)
        return self._write(log, writes, then)

    async def _create(
        self,
        log: SessionLog,
        creation: CreateSession,
        writes: Sequence[Write],
        then: Callable[[], None] = lambda: None,
        *,
        may_exist: bool = False,
    ) -> None:
        """Write the first changes of a log, and with them its session. Raises what `write` raises.

        Args:
            may_exist: SessionExistsError is raised as it is: the caller has asked for the session, and for nothing else.
        """
        key = log.key
        log.creation = None
        self._access.commits.clear_failure(key)
        over = self.creating[key] = asyncio.get_running_loop().create_future()
        self._keep(log)
        try:
            await self._write(log, [creation, *writes], then, may_exist=may_exist)
        except Exception:
            # Whether there is such a session, and which, only the store can tell.
            self.evict(key)
            raise
        finally:
            del self.creating[key]
            over.set_result(None)

    async def _write(
        self, log: SessionLog, writes: Sequence[Write], then: Callable[[], None], *, may_exist: bool = False
    ) -> None:
        log.unwritten += 1
        try:
            await self._access.commits.submit(log.key, writes, then)
        except Exception as error:
            # The log is loaded again when it is used next, what it shares with others at once.
            log.mark_stale()
            if any(isinstance(write, PutState) and not write.key.session for write in writes):
                await self._shared.reread(log.key)
            if may_exist or not isinstance(error, SessionExistsError):
                raise
            # It was not there a moment ago, so another deployment has created it, and serves it.
            raise StoreConflictError(log.key.session, "it was created at the same time") from error
        finally:
            log.unwritten -= 1

    async def opened(self, log: SessionLog) -> None:
        """Wait until the message that opened the session's turn is on disk. Raises StoreError when it cannot be stored."""
        # Not longer: what is written behind the message may end the turn.
        while log.is_opening and (written := self._access.commits.pending.next_of(log.key)) is not None:
            # Who waits may be cancelled, the write may not.
            await asyncio.shield(written)

    def _keep(self, log: SessionLog) -> None:
        self._logs[log.key] = log
        self.use(log)

    def use(self, log: SessionLog) -> None:
        """Note that a log is used, and evict others that take too much room beside it. One that was evicted stays so."""
        if self._logs.get(log.key) is not log:
            return
        now_s = log.used_s = self._clock()
        self._eviction.use(log.key, log.weight, now_s)
        if self._eviction.is_due(now_s):
            self._make_room(now_s)

    def _make_room(self, now_s: float) -> None:
        for key in self._eviction.surplus(now_s):
            other = self._logs[key]
            if other.used_s > self._eviction.used_s(key):
                # It was read since, which is only noted in the log itself: a turn does so several times.
                self._eviction.use(key, other.weight, other.used_s)
            elif other.queue.is_idle() and not other.unwritten and now_s - other.used_s >= FRESH_S:
                self.evict(key)
            else:
                other.drop_tail()
                self._eviction.use(key, other.weight, now_s)

    def evict(self, key: SessionKey) -> None:
        """Remove a log from memory."""
        self._logs.pop(key, None)
        self._eviction.drop_key(key)


def _new_log(key: SessionKey, shared: States) -> SessionLog:
    """The log of a session that its first write creates."""
    created_s = now_s()
    row = SessionRow(key=key, head_seq=0, rewinds=0, authors=(), state={}, created_s=created_s, updated_s=created_s)
    log = SessionLog(row, *shared)
    log.creation = CreateSession(key, created_s)
    return log
