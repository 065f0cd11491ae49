"""What requests to a Session actor wait for before their handlers begin, by their lanes: see `Lane`."""

from __future__ import annotations

from typing import Any

from actors.actor import Handler
from actors.messages.limits import Limits
from actors.messages.protocol.base import Message
from actors.messages.protocol.request import Lane, Request
from actors.messages.session import SessionKey
from actors.refs.keyed_locks import KeyedLocks
from actors.rules.routing.owners import key_of
from actors.session.log.user_holds import UserHolds
from actors.session.query_line import QueryLine


class Lanes:
    """The lanes of a Session actor.

    Args:
        limits: how many queries may wait.
        holds: the users that are held.
        changes: of sessions between turns; those of one session wait for each other.
    """

    def __init__(self, limits: Limits, holds: UserHolds, changes: KeyedLocks[SessionKey]) -> None:
        self._line = QueryLine(limits)
        self._holds = holds
        self._changes = changes

    def behind(self, kind: type[Request[Message]], handler: Handler) -> Handler:
        """The handler of a request behind all that it waits for."""
        match kind.lane:
            case Lane.QUERY:
                return self._line.bounded(handler)
            case Lane.BEGIN:
                return entering(self._holds, handler)
            case Lane.CHANGE:
                return entering(self._holds, self._one_by_one(handler))
        return handler

    def _one_by_one(self, handler: Handler) -> Handler:
        """The handler of a change, which waits for those before it in its session: its own first one may be among them."""

        async def handle(message: Any) -> Message:
            async with self._changes.locked(message.key):
                return await handler(message)

        return handle


def entering(holds: UserHolds, handler: Handler, *, goes_on: bool = False) -> Handler:
    """The handler of a request that changes what a user has: it waits while the user is held.

    While a user is deleted nothing begins, and what is under way may end. While a user is moved nothing is written at all: the
    hold of a move begins when nothing is under way. Until the handler has ended no hold of its user is complete.

    Args:
        goes_on: it is part of what is under way.
    """

    async def handle(message: Request[Message]) -> Message:
        key = key_of(message)
        await holds.enter(key, goes_on=goes_on)
        try:
            return await handler(message)
        finally:
            holds.leave(key)

    return handle
