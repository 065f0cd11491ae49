"""Removes old sessions of an app with their artifacts, and archives old events, through the actors of its deployment."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from actors.errors import RaygroveError
from actors.layers.retention.messages import ArchiveOldEvents, FindOldSessions, PruneSessions
from actors.layers.stores.records import OldSession
from actors.messages.session import SessionKey
from actors.refs import SessionRef
from runtime.engine.interface import Engine
from runtime.stores.safe_artifacts import SafeArtifactStore

PAGE = 1_000
"""Sessions that are counted at a time."""


class PrunedSessions(msgspec.Struct, frozen=True, kw_only=True):
    """What was pruned, or would be.

    Attributes:
        events: how many events their logs had, rewound ones included.
        turns: how many turns they had.
        artifacts: how many artifacts, each with all its versions; None where they are only counted: no store is asked for them.
    """

    sessions: int = 0
    events: int = 0
    turns: int = 0
    artifacts: int | None = None

    def with_more(self, sessions: Sequence[OldSession], artifacts: int | None = None) -> PrunedSessions:
        """The same with some more sessions, and artifacts."""
        return PrunedSessions(
            sessions=self.sessions + len(sessions),
            events=self.events + sum(each.events for each in sessions),
            turns=self.turns + sum(each.turns for each in sessions),
            artifacts=(self.artifacts or 0) + artifacts if artifacts is not None else self.artifacts,
        )


async def prune_sessions(
    shards: Sequence[SessionRef], artifacts: SafeArtifactStore, app: str, user: str | None, before_s: float | None = None
) -> PrunedSessions:
    """Remove the sessions to which nothing was written from a time on, in batches. It may be interrupted, and called again.

    A user who is deleted or moved is waited for. Without a time it only deletes artifacts of sessions that were removed before.

    Raises:
        StoreError: a store failed, or cannot be pruned. A repetition goes on where this one has ended.
        ClusterError: an actor cannot be reached.
    """
    pruned, pruner, has_moved = PrunedSessions(artifacts=0), uuid.uuid4().hex, True
    while has_moved:
        has_moved = False
        for shard in shards:
            request, is_last = PruneSessions(app=app, user=user, before_s=before_s, pruner=pruner), False
            try:
                while not is_last:
                    reply = await shard.ask(request)
                    keys = [each.key for each in reply.removed]
                    files = await asyncio.to_thread(_delete_artifacts, artifacts, keys)
                    pruned = pruned.with_more(reply.removed, files)
                    request = msgspec.structs.replace(request, after=reply.after, done=keys)
                    is_last = reply.is_last and not keys
                    # To a store that may have been asked before.
                    has_moved |= reply.has_moved
            except BaseException:
                with suppress(RaygroveError):
                    await shard.ask(msgspec.structs.replace(request, done=(), is_given_up=True))
                raise
    return pruned


async def count_old_sessions(engine: Engine, app: str, user: str | None, before_s: float) -> PrunedSessions:
    """Count the sessions that `prune_sessions` would remove now. Raises StoreError, ClusterError."""
    found = PrunedSessions()
    for store in engine.session.stores:
        request = FindOldSessions(app=app, user=user, before_s=before_s, limit=PAGE)
        while page := (await store.shards[0].ask(request)).sessions:
            found = found.with_more(page)
            request = msgspec.structs.replace(request, after=page[-1].place)
    return found


def _delete_artifacts(artifacts: SafeArtifactStore, keys: Sequence[SessionKey]) -> int:
    return sum(artifacts.delete_session(key) for key in keys)


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
