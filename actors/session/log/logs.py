"""The logs of all sessions, as far as they are in memory: a cache over the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from actors.errors import SessionExistsError, SessionNotFoundError, StoreConflictError
from actors.interfaces.records import CreateSession, PutState, SessionRow, Write
from actors.messages.event import now_s
from actors.messages.json_types import JsonMapping
from actors.messages.limits import DEFAULT_LIMITS
from actors.messages.session import SessionKey
from actors.refs.keyed_locks import KeyedLocks
from actors.rules.capacity.eviction import CacheEviction
from actors.rules.checks import state as scopes
from actors.session.log.reader import LogReader
from actors.session.log.session_log import SessionLog
from actors.session.log.shared_state import SharedStates
from actors.session.log.user_holds import UserHolds
from actors.session.store.access import StoreAccess

IDLE_S = 600.0
"""A log that was not used for so long leaves memory."""

FRESH_S = 5.0
"""A log that was used so lately stays: a request may be waiting for the store and use it again."""


class SessionLogs:
    """Finds and creates logs, keeps those in use in memory, and writes their changes.

    Args:
        access: the store; `reader` reads it.
        shared: the states that sessions share.
        max_bytes: room for logs in memory. Logs with an open turn stay, however many there are, but without their tail.
        clock: seconds that only go forward; by default those of the event loop.
        user_holds: users of which no session is created now.
    """

    def __init__(
        self,
        access: StoreAccess,
        reader: LogReader,
        shared: SharedStates,
        max_bytes: int = DEFAULT_LIMITS.max_cache_bytes,
        clock: Callable[[], float] | None = None,
        user_holds: UserHolds | None = None,
    ) -> None:
        self._user_holds = user_holds or UserHolds(clock)
        self._access = access
        self._reader = reader
        self._shared = shared
        self._clock = clock
        self._logs: dict[SessionKey, SessionLog] = {}
        self._eviction: CacheEviction[SessionKey] = CacheEviction(max_bytes, IDLE_S)
        self._locks: KeyedLocks[SessionKey] = KeyedLocks()

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

    def all_in_memory(self) -> list[SessionLog]:
        """All logs that are in memory."""
        return list(self._logs.values())

    def in_memory(self, key: SessionKey) -> SessionLog | None:
        """The log, if it is in memory."""
        return self._logs.get(key)

    async def load(self, key: SessionKey, *, auto_create: bool = False) -> SessionLog:
        """The log of a session, in memory and as the store has it.

        Raises:
            SessionNotFoundError: there is no such session, and it is not to be created.
            StoreError: the store cannot be read, or written.
        """
        log = await self.find(key)
        if log is not None:
            return log
        if not auto_create:
            raise SessionNotFoundError(key.app, key.user, key.session)
        return await self._create(key, {}, exist_ok=True)

    async def load_to_write(self, key: SessionKey) -> SessionLog:
        """The log of a session as `load` finds it, once no deletion of its user is under way. Raises what `load` raises."""
        log = await self.load(key)
        while self._user_holds.has(key):
            await self._user_holds.passed(key)
            log = await self.load(key)
        return log

    async def find(self, key: SessionKey) -> SessionLog | None:
        """The same; None when there is no such session. Raises StoreError."""
        log = self._logs.get(key)
        if log is not None and not log.is_stale:
            self.use(log)
            return log
        async with self._locks.locked(key):
            log = self._logs.get(key)
            if log is None or log.is_stale:
                row = await self._reader.session(key)
                if row is None:
                    return None
                log = await self._load(row, log)
            return log

    async def create(self, key: SessionKey, state: JsonMapping) -> SessionLog:
        """Create a session. Raises SessionExistsError, StoreError."""
        return await self._create(key, state, exist_ok=False)

    async def _create(self, key: SessionKey, state: JsonMapping, *, exist_ok: bool) -> SessionLog:
        async with self._locks.locked(key):
            log = self._logs.get(key)
            if log is None and (row := await self._reader.session(key)) is not None:
                log = await self._load(row, None)
            if log is not None:
                if exist_ok:
                    return log
                raise SessionExistsError(key.app, key.user, key.session)
            created_s = now_s()
            row = SessionRow(key=key, head_seq=0, rewinds=0, authors=(), state={}, created_s=created_s, updated_s=created_s)
            log = SessionLog(row, *await self._shared.of(key))
            if not self._user_holds.has(key):
                await self._write_new(log, state, exist_ok=exist_ok)
                return log
        # All data of the user is being deleted, and this would be new.
        await self._user_holds.passed(key)
        return await self._create(key, state, exist_ok=exist_ok)

    async def _write_new(self, log: SessionLog, state: JsonMapping, *, exist_ok: bool) -> None:
        key = log.key
        delta = log.fold(scopes.split(state))
        self._access.commits.clear_failure(key)
        try:
            await self.write(log, [CreateSession(key, log.updated_s), *delta])
        except SessionExistsError as error:
            if exist_ok:
                # It was not there a moment ago, so another deployment has created it, and serves it.
                raise StoreConflictError(key.session, "it was created at the same time") from error
            raise
        self._keep(log)

    async def _load(self, row: SessionRow, stale: SessionLog | None) -> SessionLog:
        shared = await self._shared.of(row.key, again=stale is not None)
        if stale is None:
            log = SessionLog(row, *shared)
            log.turn = await self._reader.open_turn(row.key)
            log.queue.is_taken = log.turn is not None
            self._keep(log)
        else:
            log = stale
            if log.turn is not None:
                await self._reader.recall(log.key, log.turn)
            log.reload(row, *shared)
        self._access.commits.clear_failure(row.key)
        return log

    async def write(self, log: SessionLog, writes: Sequence[Write], then: Callable[[], None] = lambda: None) -> None:
        """Write changes of a log, all or none; `then` is called once they are on disk. Raises StoreError."""
        log.unwritten += 1
        try:
            await self._access.commits.submit(log.key, writes, then)
        except Exception:
            # Memory is ahead of the store now: the log is loaded again when it is used next, what it shares with others at once.
            log.mark_stale()
            if any(isinstance(write, PutState) and not write.key.session for write in writes):
                await self._shared.reread(log.key)
            raise
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
        now_s = log.used_s = self._clock() if self._clock is not None else asyncio.get_running_loop().time()
        self._eviction.use(log.key, log.weight, now_s)
        for key in self._eviction.surplus(now_s):
            other = self._logs[key]
            if other.queue.is_idle() and not other.unwritten and now_s - other.used_s >= FRESH_S:
                self.evict(key)
            else:
                other.drop_tail()
                self._eviction.use(key, other.weight, now_s)

    def evict(self, key: SessionKey) -> None:
        """Remove a log from memory."""
        self._logs.pop(key, None)
        self._eviction.drop(key)
