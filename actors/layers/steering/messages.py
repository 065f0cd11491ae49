"""The messages of steering: Runner, agents and drivers to the Session actor."""

from __future__ import annotations

import msgspec

from actors.messages.config import RunConfig
from actors.messages.json_types import StateDelta
from actors.messages.protocol.base import Message
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.session import SessionKey


class MessageLeft(Message, frozen=True, kw_only=True):
    """Where the message waits.

    Attributes:
        invocation_id: the turn that runs, whose agents may read it; "": none runs, or the message was read or has begun a turn,
            and nothing was stored.
        after_seq: the position of the newest event of the session.
    """

    invocation_id: str = ""
    after_seq: int = 0


class LeaveMessage(Request[MessageLeft], frozen=True, kw_only=True):
    """Store a message of the user while a turn of the session runs. The reply is MessageLeft. Sent again, it changes nothing.

    Attributes:
        event: the user's event, encoded, as it would begin a turn.
        config, state_delta, fingerprint, traceparent: see StartTurn; of the turn that the message begins if no agent reads it.
        waits: it is stored already: only ask which turn runs.
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    event: bytes
    config: RunConfig
    state_delta: StateDelta = msgspec.field(default_factory=dict)
    fingerprint: str = ""
    traceparent: str = ""
    waits: bool = False


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
    """Ask where a message is. The reply is MessagePlace.

    Attributes:
        invocation_id: the turn that it begins if no agent reads it.
        event_id: of the message.
    """

    route = Route.SESSION
    lane = Lane.READ

    key: SessionKey
    invocation_id: str
    event_id: str
