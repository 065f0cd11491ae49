"""The Session actor as a service: its store, the parent map and sessions; driver and agents to Session actor."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.json_types import JsonObject, StateDelta
from actors.messages.protocol.base import Ack, Lane, Message, Request, Route, StoredEvent
from actors.messages.protocol.log import Appended
from actors.messages.session import SessionKey, SessionPlace
from actors.messages.topology import Topology


class OpenStore(Request[Ack], frozen=True, kw_only=True):
    """Open the session store, which is opened by the first request that needs it otherwise."""

    route = Route.ALL
    lane = Lane.DIRECT


class TopologyReply(Message, frozen=True, kw_only=True):
    """The parent map, and the name of its version.

    Attributes:
        topology: None: the program knows it.
    """

    topology: Topology | None = None
    version: str = ""


class GetTopology(Request[TopologyReply], frozen=True, kw_only=True):
    """Ask for the parent map of the current version of the tree.

    Attributes:
        known: the name of the version that the program knows; "": none.
    """

    route = Route.FIRST
    lane = Lane.DIRECT

    known: str = ""


class SessionReply(Message, frozen=True, kw_only=True):
    """The session asked for, or None."""

    session: SessionInfo | None = None


class CreateSessionRequest(Request[SessionReply], frozen=True, kw_only=True):
    """Create a session with a state, all scopes by prefixed keys.

    Attributes:
        again: the request may have been done before: then a session as it would be now is taken for the one that it has created.
    """

    route = Route.SESSION
    lane = Lane.BEGIN
    is_sent_once = True

    key: SessionKey
    state: StateDelta = msgspec.field(default_factory=dict)
    again: bool = False


class GetSessionRequest(Request[SessionReply], frozen=True, kw_only=True):
    """Read a session: its newest `num_recent_events` events (None: all) not older than `after_timestamp` seconds.

    Attributes:
        after_seq: give a page of the events after this position, without regard to `num_recent_events`; None: one reply for all.
    """

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    num_recent_events: int | None = None
    after_timestamp: float | None = None
    after_seq: int | None = None


class SessionsReply(Message, frozen=True, kw_only=True):
    """The sessions asked for, without their events."""

    sessions: Sequence[SessionInfo] = ()


class ListSessionsRequest(Request[SessionsReply], frozen=True, kw_only=True):
    """List the sessions of a user, or of all users with None, the one written last first.

    Attributes:
        limit: at most so many; None is no limit.
        before: only sessions that come after this one in the list.
    """

    route = Route.USER
    lane = Lane.QUERY

    app: str
    user: str | None = None
    limit: int | None = None
    before: SessionPlace | None = None

    def joined(self, replies: Sequence[SessionsReply]) -> SessionsReply:
        """Those of all stores. A user who is moved meanwhile may be in two of them, and is listed once."""
        once = {each.key: each for reply in replies for each in reply.sessions}.values()
        found = sorted(once, key=lambda each: (each.updated_s, each.key.user, each.key.session), reverse=True)
        return SessionsReply(sessions=found[: self.limit])


class DeleteSessionRequest(Request[Ack], frozen=True, kw_only=True):
    """Delete a session."""

    route = Route.SESSION
    lane = Lane.CHANGE

    key: SessionKey


class AppendEventRequest(Request[Appended], frozen=True, kw_only=True):
    """Append an event to a session outside of any turn."""

    route = Route.SESSION
    lane = Lane.CHANGE

    key: SessionKey
    event: bytes


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One session.

    Attributes:
        state: all scopes merged.
        events: those that were asked for.
        updated_s: when it was last written, in seconds since the epoch.
        more: the events are a page, and there are more.
        generation: names the log; another one after a rewind, and after the session was deleted and created again.
    """

    key: SessionKey
    state: JsonObject = msgspec.field(default_factory=dict)
    events: Sequence[StoredEvent] = ()
    updated_s: float = 0.0
    more: bool = False
    generation: str = ""
