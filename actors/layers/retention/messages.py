"""Pruning sessions that were not written to for long, and archiving old events: driver to Session actors.

The driver has each Session actor remove its old sessions batch by batch, and deletes the artifacts of each batch. What was
removed stays noted in the store until the driver has said so, and is named again to whatever prunes next.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.layers.stores.records import OldSession
from actors.messages.protocol.base import Lane, Message, Request, Route
from actors.messages.session import SessionKey, SessionPlace


class OldSessions(Message, frozen=True, kw_only=True):
    """Reply to FindOldSessions."""

    sessions: Sequence[OldSession] = ()


class FindOldSessions(Request[OldSessions], frozen=True, kw_only=True):
    """List sessions that could be pruned, the oldest first.

    Attributes:
        user: only sessions of this user; None: of all users.
        before_s: sessions to which nothing was written from this time on, in seconds since the epoch.
        limit: at most so many.
        after: only those that come after this place.
    """

    route = Route.ACTOR
    lane = Lane.QUERY

    app: str
    user: str | None = None
    before_s: float
    limit: int
    after: SessionPlace | None = None


class SessionsPruned(Message, frozen=True, kw_only=True):
    """Reply to PruneSessions.

    Attributes:
        removed: sessions that are removed, and whose artifacts are to be deleted now.
        after: where the next batch begins.
        is_last: no further batch has to be asked for, once the artifacts of these are deleted and that is said.
        has_moved: a user of the batch has just been moved to another store, and was left out here.
    """

    removed: Sequence[OldSession] = ()
    after: SessionPlace | None = None
    is_last: bool = False
    has_moved: bool = False


class PruneSessions(Request[SessionsPruned], frozen=True, kw_only=True):
    """Remove a batch of old sessions.

    Attributes:
        user: only sessions of this user; None: of all users.
        before_s: sessions to which nothing was written from this time on, in seconds since the epoch; None: none is removed, but
            artifacts of those that were removed before may be there.
        after: where the batch before has ended; None: this is the first.
        done: sessions that were removed before, and whose artifacts are deleted.
        pruner: tells those apart that prune at the same time.
        is_given_up: it has failed: it removes nothing, and deletes no further artifacts.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    app: str
    user: str | None = None
    before_s: float | None = None
    after: SessionPlace | None = None
    done: Sequence[SessionKey] = ()
    pruner: str = ""
    is_given_up: bool = False


class OldEventsArchived(Message, frozen=True, kw_only=True):
    """Reply to ArchiveOldEvents.

    Attributes:
        events: how many events were archived, by session.
        after: where to begin the next time.
        is_last: nothing is left to do.
    """

    events: Sequence[tuple[SessionKey, int]] = ()
    after: SessionKey | None = None
    is_last: bool = False


class ArchiveOldEvents(Request[OldEventsArchived], frozen=True, kw_only=True):
    """Archive old events of some of the sessions that one Session actor serves.

    Attributes:
        user: only sessions of this user; None: of all users.
        before_s: only events from before this time, in seconds since the epoch.
        dry_run: only count them.
        after: the session after which to begin; None: at the first.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    app: str
    user: str | None = None
    before_s: float
    dry_run: bool = False
    after: SessionKey | None = None
