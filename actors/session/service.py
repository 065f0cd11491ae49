"""The seam by which features join the Session actor: a service has handlers of its own, and the core knows no service by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.actor import Handler, Handlers
from actors.messages.protocol.base import Message
from actors.messages.protocol.request import Request
from actors.session.turns.parts import SessionParts


class SessionService:
    """A feature of the Session actor. It is made with the actor's parts, and lives as long as the actor."""

    def handlers(self) -> Handlers:
        """The messages that it takes, each of them with its handler. Each comes to it behind what its lane has it wait for."""
        return {}

    def around(self, kind: type[Request[Message]], handler: Handler) -> Handler:
        """The handler of a message, of the core or of any service, with what this service does before and after it."""
        return handler

    async def close(self) -> None:
        """Release what it holds. The store is open until all services have done so."""


Services = Callable[[SessionParts], Sequence[SessionService]]
"""Makes the services of a Session actor. They are closed in their order, and those before are outside in `around`."""


def no_services(_: SessionParts) -> Sequence[SessionService]:
    """Make none: the actor does what a plain conversation needs."""
    return ()
