"""The message that rewinds a session: driver to Session actor."""

from __future__ import annotations

from actors.layers.stores.schedule import ScheduleRow
from actors.messages.protocol.base import Ack
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.session import SessionKey


class RewindRequest(Request[Ack], frozen=True, kw_only=True):
    """Hide a turn and all that followed it, and restore the state as it was before.

    Attributes:
        begins: the message that begins a turn in place of those that are hidden, in the same step; None: none does.
        again: the request may have been done before: then nothing is left to do if the log ends with the rewind of that turn.
    """

    route = Route.SESSION
    lane = Lane.CHANGE
    is_sent_once = True

    key: SessionKey
    invocation_id: str
    begins: ScheduleRow | None = None
    again: bool = False
