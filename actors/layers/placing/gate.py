"""The gate before all handlers of a Session actor of several: no message reads or changes what a user has who is elsewhere."""

from __future__ import annotations

from actors.actor import Handler
from actors.layers.holds import UserHolds
from actors.layers.placing.placements import UserPlacements
from actors.messages import protocol as p
from actors.messages.protocol.request import ABOUT_USERS, Lane, Request, user_of
from actors.messages.session import SessionKey
from actors.session.service import SessionService


class UserGate(SessionService):
    """Lets messages about users in.

    Args:
        holds: the users that are held.
        placements: the users that are in another store.
    """

    def __init__(self, holds: UserHolds, placements: UserPlacements) -> None:
        self._holds = holds
        self._placements = placements
        holds.on_passed = placements.check_key

    def around(self, kind: type[Request[p.Message]], handler: Handler) -> Handler:
        """The handler behind the gate. It raises UserElsewhereError for a user who is in another store."""
        if not self._placements.is_one_of_several or kind.route not in ABOUT_USERS:
            # Without other stores no user is moved, and nothing else has these wait.
            return handler
        if kind.lane is Lane.GO_ON:
            return self._checked(self._holds.entering(handler, goes_on=True))
        return self._checked(handler, again=kind.lane in (Lane.QUERY, Lane.READ))

    def _checked(self, handler: Handler, *, again: bool = False) -> Handler:
        """With `again` it is checked afterwards, too: the user may have been moved while a question was answered."""

        async def handle(message: Request[p.Message]) -> p.Message:
            owner = user_of(message)
            if owner is None:
                return await handler(message)
            key = SessionKey(*owner, "")
            await self._placements.check_key(key)
            if isinstance(message, p.OpenTurn | p.Subscribe):
                self._placements.check_sender(message, key.user)
            reply = await handler(message)
            if again:
                await self._placements.check_key(key)
            return reply

        return handle
