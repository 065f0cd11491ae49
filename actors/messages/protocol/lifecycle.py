"""The life of a deployment: actors stop, and go on with turns that were left open."""

from __future__ import annotations

from actors.messages.protocol.base import Ack
from actors.messages.protocol.request import Lane, Request, Route


class Stop(Request[Ack], frozen=True, kw_only=True):
    """Finish what is under way, release everything, and take no more messages.

    Attributes:
        leave_turns: of a Runner: turns that run are not cancelled; they stay open in the log, for a later deployment to resume.
    """

    route = Route.ALL
    lane = Lane.DIRECT

    leave_turns: bool = False


class ResumeTurns(Request[Ack], frozen=True, kw_only=True):
    """Go on with all turns that are open in the store and do not run: an earlier deployment has left them.

    A program asks a Runner, which does so for the sessions of its shard. The reply is Ack.
    """

    route = Route.ALL
