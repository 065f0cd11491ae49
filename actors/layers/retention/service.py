"""Pruning sessions that were not written to for long, and archiving old events of long ones, while others talk.

Rules of pruning, batch by batch:

- Which sessions are old is one query of the store. It is asked once more when no turn can begin in them any more.
- A session goes in one transaction, with a note that its artifacts are still there. The driver deletes these, and says so.
- What is deleted or moved of a user is waited for: a batch has no holes.
- Until then the session is held: a turn that begins it anew waits, so that no new artifact is deleted with the old ones. Where
  several prune at once, each that was told of the session may be deleting its artifacts, so all of them have to say so.

Archived events give their room up, and are read as before. Which events may be archived is a question to the store. It is not
asked again when they are moved: where an event is changes nothing for any reader or writer, so no turn has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack

from actors.actor import Handlers
from actors.errors import SessionBusyError, UserArrivingError, UserElsewhereError
from actors.layers.batches import KeptBatches
from actors.layers.holds import UserHolds
from actors.layers.retention.messages import (
    ArchiveOldEvents,
    FindOldSessions,
    OldEventsArchived,
    OldSessions,
    PruneSessions,
    SessionsPruned,
)
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import ArchiveEvents, ForgetRemoval, NoteRemoval, OldSession
from actors.messages.session import SessionKey
from actors.rules.sharding import holds
from actors.session.log.session_log import TAIL, SessionLog
from actors.session.service import SessionParts, SessionService
from actors.session.sessions import remove_session

BATCH = 50
"""Sessions that are removed at once, at most."""

BATCH_EVENTS = 2_000
"""Events that are removed at once, unless a single session has more: turns of others wait for them."""


class Retention(SessionService):
    """Answers FindOldSessions and PruneSessions."""

    def __init__(self, parts: SessionParts, batches: KeptBatches, user_holds: UserHolds) -> None:
        self._parts = parts
        self._user_holds = user_holds
        self._batches = batches
        # By session who was told that its artifacts are still there, and whether they have deleted them.
        self._told: dict[SessionKey, dict[str, bool]] = {}
        # Their notes may be on disk before their logs are gone from memory: they have not begun anew.
        self._removing: set[SessionKey] = set()
        # A note that is read while it is being forgotten would be told once more.
        self._telling = asyncio.Lock()

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            FindOldSessions: self.find_old_sessions,
            PruneSessions: self.prune_sessions,
        }

    async def find_old_sessions(self, message: FindOldSessions) -> OldSessions:
        """List sessions that could be pruned. Raises StoreError."""
        return OldSessions(sessions=await self._old(message))

    async def prune_sessions(self, message: PruneSessions) -> SessionsPruned:
        """Remove a batch of old sessions, unless the artifacts of an earlier one are still there. Raises StoreError."""
        await self._note_done(message)
        if message.is_given_up:
            await self._give_up(message.pruner)
            return SessionsPruned(is_last=True)
        if left := await self._removed(message):
            return SessionsPruned(removed=left, after=message.after)
        if message.before_s is None:
            return SessionsPruned(is_last=True)
        wanted = FindOldSessions(app=message.app, user=message.user, before_s=message.before_s, limit=BATCH, after=message.after)
        found = await self._old(wanted)
        batch = _batch(found)
        keys = [each.key for each in batch if holds(self._parts.shard, each.key)]
        has_moved = False
        async with AsyncExitStack() as stack:
            for user in dict.fromkeys(key.user for key in keys):
                try:
                    await stack.enter_async_context(self._user_holds.entered(SessionKey(message.app, user, "")))
                except (UserElsewhereError, UserArrivingError):
                    # What the user had here is gone, also from the list of what is old.
                    has_moved = True
            await self._remove(wanted, keys)
        after = batch[-1].place if batch else message.after
        is_last = len(batch) == len(found) < BATCH
        if is_last:
            await self._batches.forget_old(message.app, message.user, message.before_s)
        return SessionsPruned(removed=await self._removed(message), after=after, is_last=is_last, has_moved=has_moved)

    async def _remove(self, wanted: FindOldSessions, keys: Sequence[SessionKey]) -> None:
        taken = [log for log in await asyncio.gather(*map(self._take, keys)) if log is not None]
        try:
            if taken:
                still_old = {each.key: each for each in await self._old(wanted)}
                old = [(log, still_old[log.key]) for log in taken if log.key in still_old]
                removed = (self._remove_one(log, session) for log, session in old)
                for failed in await asyncio.gather(*removed, return_exceptions=True):
                    # One whose background runs work stays.
                    if failed is not None and not isinstance(failed, SessionBusyError):
                        raise failed
        finally:
            for log in taken:
                log.queue.start_next()

    async def _take(self, key: SessionKey) -> SessionLog | None:
        """A log in which no turn can begin any more; None when it is in use."""
        log = await self._parts.logs.find(key)
        if log is None or log.turn is not None or log.unwritten or not log.queue.is_idle() or self._user_holds.has(key):
            return None
        log.queue.is_taken = True
        return log

    async def _remove_one(self, log: SessionLog, session: OldSession) -> None:
        self._user_holds.hold_session(log.key)
        self._removing.add(log.key)
        try:
            await remove_session(self._parts, log, NoteRemoval(log.key, session))
        except BaseException:
            self._user_holds.release_session(log.key)
            raise
        finally:
            self._removing.discard(log.key)

    async def _removed(self, message: PruneSessions) -> Sequence[OldSession]:
        """The sessions whose artifacts are still there, but for those that have begun anew: they have these artifacts now."""
        async with self._telling:
            return await self._told_now(message)

    async def _told_now(self, message: PruneSessions) -> Sequence[OldSession]:
        noted = await self._parts.access.read(store_of(self._parts.access).removals, message.app, message.user)
        mine = [each for each in noted if holds(self._parts.shard, each.key) and each.key not in self._removing]
        for each in mine:
            self._user_holds.hold_session(each.key)
        anew = [each.key for each in mine if await self._parts.logs.find(each.key) is not None]
        await self._forget(anew)
        told = [each for each in mine if each.key not in anew and not self._told.get(each.key, {}).get(message.pruner)]
        for each in told:
            self._told.setdefault(each.key, {})[message.pruner] = False
        return told

    async def _note_done(self, message: PruneSessions) -> None:
        """Forget the sessions whose artifacts are deleted, unless others are deleting them, too."""
        async with self._telling:
            for key in message.done:
                self._told.setdefault(key, {})[message.pruner] = True
            # Where the hold has ended the others were lost.
            is_held = self._user_holds.has
            await self._forget([key for key in message.done if all(self._told[key].values()) or not is_held(key)])

    async def _give_up(self, pruner: str) -> None:
        """Wait for a pruner no longer: others delete what it has left, or have done so."""
        async with self._telling:
            told = [key for key, of in self._told.items() if of.pop(pruner, None) is not None]
            await self._forget([key for key in told if self._told[key] and all(self._told[key].values())])

    async def _forget(self, keys: Iterable[SessionKey]) -> None:
        """Forget the notes of sessions, and hold these no longer."""
        forgotten = list(keys)
        commits = self._parts.access.commits
        held = self._user_holds
        # The note of a user who is held stays: it is named once more to whatever prunes next, here or in another store.
        free = [key for key in forgotten if not held.has_user(key.app, key.user)]
        for key in free:
            commits.clear_failure(key)
        with held.writing(*free):
            await asyncio.gather(*(commits.submit(key, [ForgetRemoval(key)]) for key in free))
        for key in free:
            self._told.pop(key, None)
        for key in forgotten:
            held.release_session(key)

    async def _old(self, message: FindOldSessions) -> list[OldSession]:
        store = store_of(self._parts.access)
        await self._parts.access.commits.flush()

        def found() -> list[OldSession]:
            wanted = message.app, message.user, message.before_s
            return store.old_sessions(*wanted, limit=message.limit, after=message.after)

        return await self._parts.access.read(found)


def _batch(found: Sequence[OldSession]) -> Sequence[OldSession]:
    """The first ones, as far as their events may be removed at once; the first in any case."""
    events = 0
    for at, each in enumerate(found):
        events += each.events
        if at and events > BATCH_EVENTS:
            return found[:at]
    return found


KEPT = TAIL
"""The newest events of a session are never archived: a session that is loaded again begins with them."""

SESSIONS = 100
"""Sessions that are looked at for one reply, at most."""

TRANSACTIONS = 4
"""Transactions that one request makes, at most."""


class Archiving(SessionService):
    """Answers ArchiveOldEvents."""

    def __init__(self, parts: SessionParts, user_holds: UserHolds) -> None:
        self._parts = parts
        self._user_holds = user_holds

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            ArchiveOldEvents: self.archive_old_events,
        }

    async def archive_old_events(self, message: ArchiveOldEvents) -> OldEventsArchived:
        """Archive old events of some sessions. Raises StoreError."""
        await self._parts.access.commits.flush()
        keys = await self._sessions(message)
        archived: list[tuple[SessionKey, int]] = []
        after, left = message.after, TRANSACTIONS
        for key in keys:
            count, last_seq = 0, 0
            while holds(self._parts.shard, key) and (found := await self._next(message, key, last_seq)):
                if not left:
                    return OldEventsArchived(events=_with(archived, key, count), after=after)
                last_seq = found[-1]
                if not message.dry_run:
                    left -= 1
                    if not await self._move(key, last_seq):
                        break
                count += len(found)
            archived, after = _with(archived, key, count), key
        return OldEventsArchived(events=archived, after=after, is_last=len(keys) < SESSIONS)

    async def _move(self, key: SessionKey, last_seq: int) -> bool:
        """Move events of a session; False when it was deleted meanwhile, or its user was moved."""
        try:
            async with self._user_holds.entered(key):
                log = await self._parts.logs.find(key)
                if log is None:
                    return False
                await self._parts.logs.write(log, [ArchiveEvents(key, last_seq)])
        except (UserElsewhereError, UserArrivingError):
            return False
        return True

    async def _sessions(self, message: ArchiveOldEvents) -> Sequence[SessionKey]:
        store, of = store_of(self._parts.access), (message.app, message.user)
        return await self._parts.access.read(lambda: store.long_sessions(*of, KEPT, limit=SESSIONS, after=message.after))

    async def _next(self, message: ArchiveOldEvents, key: SessionKey, after_seq: int) -> Sequence[int]:
        store, before_s = store_of(self._parts.access), message.before_s
        return await self._parts.access.read(lambda: store.archivable(key, before_s, keep=KEPT, after_seq=after_seq))


def _with(archived: Sequence[tuple[SessionKey, int]], key: SessionKey, count: int) -> list[tuple[SessionKey, int]]:
    return [*archived, (key, count)] if count else list(archived)
