"""Archiving: old events of long sessions give their room up, and are read as before.

Which events may be archived is a question to the store. It is not asked again when they are moved: where an event is changes
nothing for any reader or writer, so no turn has to wait or to be kept away.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.actor import Handlers
from actors.errors import UserArrivingError, UserElsewhereError
from actors.layers.holds import UserHolds
from actors.layers.retention.messages import ArchiveOldEvents, OldEventsArchived
from actors.layers.stores.records import ArchiveEvents
from actors.layers.stores.session_store import store_of
from actors.messages.session import SessionKey
from actors.rules.capacity.sharding import holds
from actors.session.log.session_log import TAIL
from actors.session.service import SessionParts, SessionService

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
