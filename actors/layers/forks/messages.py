"""The message that makes a fork: driver to Session actor."""

from __future__ import annotations

from actors.layers.stores.schedule import ScheduleRow
from actors.messages.protocol.base import Ack
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.session import SessionKey


class ForkSession(Request[Ack], frozen=True, kw_only=True):
    """Make a new session of the same user that has all of a session up to the end of a turn.

    Attributes:
        fork: the id of the new session.
        begins: a message of the fork, as a schedule that is due, whose turn begins whatever is lost; None: none does.
        again: the request may have been done before: then nothing is left to do if the fork is there.
    """

    route = Route.SESSION
    lane = Lane.CHANGE
    is_sent_once = True

    key: SessionKey
    invocation_id: str
    fork: str
    begins: ScheduleRow | None = None
    again: bool = False
