"""The messages of steering: Runner, agents and drivers to the Session actor."""

from __future__ import annotations

from actors.messages.protocol.base import Lane, Message, Request, Route
from actors.messages.session import SessionKey


class MessageReader(Message, frozen=True, kw_only=True):
    """Who may read a message that waits.

    Attributes:
        invocation_id: the turn that runs; "": none does, or it has the message.
    """

    invocation_id: str = ""


class FindReader(Request[MessageReader], frozen=True, kw_only=True):
    """Ask which turn may read a message that waits.

    Attributes:
        event_id: of the message.
    """

    route = Route.SESSION
    lane = Lane.READ

    key: SessionKey
    event_id: str


class MessagePlace(Message, frozen=True, kw_only=True):
    """Where a message is.

    Attributes:
        invocation_id, seq: the turn that has it, and its position; "" and 0: none yet.
        agent: the agent that has read it; "": it has begun the turn.
        waits: it is stored, and waits to be read or to begin a turn.
        is_in_line: its own turn waits in the line of the session.
    """

    invocation_id: str = ""
    seq: int = 0
    agent: str = ""
    waits: bool = False
    is_in_line: bool = False

    @property
    def opened_seq(self) -> int:
        """Its position, if the turn has begun or gone on with it; else 0."""
        return 0 if self.agent else self.seq


class FindMessage(Request[MessagePlace], frozen=True, kw_only=True):
    """Ask where a message is.

    Attributes:
        invocation_id: the turn that it begins if no agent reads it.
        event_id: of the message.
    """

    route = Route.SESSION
    lane = Lane.READ

    key: SessionKey
    invocation_id: str
    event_id: str
