"""Archives old events of long sessions of an app, through the actors of its deployment."""

from __future__ import annotations

import msgspec

from actors.layers.retention.messages import ArchiveOldEvents
from actors.messages.session import SessionKey
from runtime.engine.interface import Engine


class ArchivedEvents(msgspec.Struct, frozen=True, kw_only=True):
    """What was archived, or would be.

    Attributes:
        sessions: of how many sessions.
        events: how many events, rewound ones included.
    """

    sessions: int
    events: int


async def archive_old_events(engine: Engine, app: str, user: str | None, before_s: float, *, dry_run: bool) -> ArchivedEvents:
    """Move old events into the archive, in batches. It may be interrupted, and called again.

    Args:
        before_s: only events from before this time, in seconds since the epoch.
        dry_run: only count them.

    Raises:
        StoreError: the store failed, or has no archive.
        ClusterError: an actor cannot be reached.
    """
    sessions: set[SessionKey] = set()
    events = 0
    for shard in engine.session.shards:
        request, is_last = ArchiveOldEvents(app=app, user=user, before_s=before_s, dry_run=dry_run), False
        while not is_last:
            reply = await shard.ask(request)
            sessions.update(key for key, _ in reply.events)
            events += sum(count for _, count in reply.events)
            request, is_last = msgspec.structs.replace(request, after=reply.after), reply.is_last
    return ArchivedEvents(sessions=len(sessions), events=events)
