"""What Session actors over one store tell each other of states that their sessions share: those of users and of the app.

Each keeps such states in memory, and asks the store for them again when another one has changed them. See
`actors.layers.sharing`.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages.protocol.base import Ack, Message
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.session import SessionKey


class StatesWatched(Message, frozen=True, kw_only=True):
    """Reply to WatchStates.

    Attributes:
        for_s: for how long the sender hears of them, in seconds from when it has asked; 0: it does not.
    """

    for_s: float


class WatchStates(Request[StatesWatched], frozen=True, kw_only=True):
    """Tell the sender of each change of a state that sessions share, before anybody else hears that it is stored.

    Attributes:
        shard: the number of the Session actor that asks.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    shard: int


class ForgetStates(Request[Ack], frozen=True, kw_only=True):
    """Read states from the store before they are used again: they were changed there.

    Attributes:
        scopes: their keys; None: any may have been changed, since the sender has taken the place of one that was lost.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    scopes: Sequence[SessionKey] | None = None
