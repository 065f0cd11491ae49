"""Deleting all data of a user: driver to Session actors.

The driver holds the user in every Session actor, cancels the turns that are still open, has one of the actors remove
everything, and releases the user. A hold ends by itself when the driver is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from actors.messages.protocol.base import Ack, Message
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.session import SessionKey


class UserHeld(Message, frozen=True, kw_only=True):
    """Reply to HoldUser.

    Attributes:
        turns: the user's turns that are open, as session and invocation id: the driver has to cancel them.
        is_idle: nothing of the user is under way in this Session actor any more.
        is_held: False: the user is not held for the sender. Another one moves or deletes the user, or the hold has ended.
    """

    turns: Sequence[tuple[SessionKey, str]] = ()
    is_idle: bool = False
    is_held: bool = True

    @classmethod
    def joined(cls, replies: Sequence[Self]) -> Self:
        """The turns of all of them. The user is held where all hold."""
        return cls(
            turns=[turn for reply in replies for turn in reply.turns],
            is_idle=all(reply.is_idle for reply in replies),
            is_held=all(reply.is_held for reply in replies),
        )


class HoldUser(Request[UserHeld], frozen=True, kw_only=True):
    """Let what would write data of a user wait, and cancel the turns of the user that wait in queues. Sent again, it holds on.

    Attributes:
        moves: the user is to be moved: nothing is cancelled, and a user who has turns that run or wait is not held.
        renews: hold on if the sender has the user held still, and else do nothing: something may have happened since.
        token: tells those apart that hold the user. A move holds its user alone.
    """

    route = Route.USER_ACTORS
    lane = Lane.DIRECT

    app: str
    user: str
    moves: bool = False
    renews: bool = False
    token: str = ""


class UserRemoved(Message, frozen=True, kw_only=True):
    """Reply to RemoveUser.

    Attributes:
        sessions: the ids of the sessions that were removed.
        events: how many events their logs had, rewound ones included.
        state_keys: how many keys of `user:` state were removed.
        memories: how many entries of memory were removed.
        schedules: how many schedules were removed.
    """

    sessions: Sequence[str] = ()
    events: int = 0
    state_keys: int = 0
    memories: int = 0
    schedules: int = 0


class RemoveUser(Request[UserRemoved], frozen=True, kw_only=True):
    """Remove all sessions of a user, the user's state and memory. Every Session actor holds the user for this token."""

    route = Route.USER
    lane = Lane.DIRECT

    app: str
    user: str
    token: str = ""


class ReleaseUser(Request[Ack], frozen=True, kw_only=True):
    """End the hold of a token. Once no other has the user held, what has waited goes on, with nothing of the user in memory."""

    route = Route.ALL
    lane = Lane.DIRECT

    app: str
    user: str
    token: str = ""


class CancelWaitingTurns(Request[Ack], frozen=True, kw_only=True):
    """Cancel the turns of a user that wait in a Runner to be opened: no Session actor knows of them yet."""

    route = Route.ALL

    app: str
    user: str
