"""The gate before the handlers of a Session actor: no message changes what belongs to a user who is held, or is elsewhere.

What each message does is said by its lane. Whether it has to wait is decided here, for all:

- While a user is deleted nothing begins, and what is under way may end. While a user is moved nothing is written at all: the
  hold of a move begins when nothing is under way.
- A message waits before its handler begins. Until the handler has ended no hold of its user is complete.
"""

from __future__ import annotations

from actors.actor import Handler
from actors.messages import protocol as p
from actors.messages.protocol.request import ABOUT_USERS, Lane, Request
from actors.messages.session import SessionKey
from actors.rules.placing.owners import key_of, user_of
from actors.session.log.user_holds import UserHolds
from actors.session.placing.placements import UserPlacements


class UserGate:
    """Lets messages about users in.

    Args:
        holds: the users that are held.
        placements: the users that are in another store.
    """

    def __init__(self, holds: UserHolds, placements: UserPlacements) -> None:
        self._holds = holds
        self._placements = placements
        self._is_one_of_several = placements.is_one_of_several

    def guarded(self, kind: type[Request[p.Message]], handler: Handler) -> Handler:
        """The handler of a message behind the gate. It raises UserElsewhereError for a user who is in another store."""
        if kind.lane in (Lane.BEGIN, Lane.CHANGE):
            return self._changing(handler, goes_on=False)
        if not self._is_one_of_several or kind.route not in ABOUT_USERS:
            # Without other stores no user is moved, and nothing else has these wait.
            return handler
        if kind.lane is Lane.GO_ON:
            return self._changing(handler, goes_on=True)
        return self._asking(handler, again=kind.lane in (Lane.QUERY, Lane.READ))

    def _changing(self, handler: Handler, *, goes_on: bool) -> Handler:
        """For a message that changes what a user has: it waits while the user is held."""
        holds = self._holds

        async def handle(message: Request[p.Message]) -> p.Message:
            key = key_of(message)
            if self._is_one_of_several:
                await self._check(message, key)
            await holds.enter(key, goes_on=goes_on)
            try:
                return await handler(message)
            finally:
                holds.leave(key)

        return handle

    def _asking(self, handler: Handler, *, again: bool) -> Handler:
        """For a message that only asks, or that holds its user. `again`: the user may have been moved while it was answered."""

        async def handle(message: Request[p.Message]) -> p.Message:
            owner = user_of(message)
            if owner is None:
                return await handler(message)
            key = SessionKey(*owner, "")
            await self._check(message, key)
            reply = await handler(message)
            if again:
                await self._placements.check_key(key)
            return reply

        return handle

    async def _check(self, message: p.Message, key: SessionKey) -> None:
        await self._placements.check_key(key)
        if isinstance(message, p.OpenTurn | p.Subscribe):
            self._placements.check_sender(message, key.user)
