"""Writing to a log and reading what is new in it: agents to Session actor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.messages.protocol.base import Message, StoredEvent, TurnRef
from actors.messages.protocol.outcomes import AnyOutcome
from actors.messages.session import SessionKey


# ------------------------------------------------------------------------------------------------- agent -> Session
class Append(Message, frozen=True, kw_only=True):
    """Store events of a turn, in this order, all or none.

    Attributes:
        temp: changes of `temp:` state, without the prefix.
        outcome: set when the turn ends with these events: its end is stored with them, and nobody has to send a CloseTurn.
        selected: the agent selected for a turn that ends so.
    """

    turn: TurnRef
    events: Sequence[bytes]
    temp: dict[str, Any] = msgspec.field(default_factory=dict)
    outcome: AnyOutcome | None = None
    selected: str = ""


class Appended(Message, frozen=True, kw_only=True):
    """The events are on disk, side by side.

    Attributes:
        first_seq: the place of the first.
        state_seq: the place of the event before them that changed the session's state last.
    """

    first_seq: int
    state_seq: int = 0


class TellPartial(Message, frozen=True, kw_only=True):
    """Pieces of a streamed answer, for the turn's subscribers; they are not stored."""

    turn: TurnRef
    events: Sequence[bytes]


class Fetch(Message, frozen=True, kw_only=True):
    """Ask for what is new in a log behind `after_seq`; with `state_only` for the state alone."""

    key: SessionKey
    after_seq: int = 0
    generation: str = ""
    state_only: bool = False


class Fetched(Message, frozen=True, kw_only=True):
    """What is new.

    Attributes:
        generation: when it is not what was asked with, `events` begin at the log's start.
        more: there is more behind the last event; ask again.
        state: the session's state, all scopes with the turn's `temp:`, encoded.
        state_seq: the place of the event that changed it last.
    """

    events: Sequence[StoredEvent]
    generation: str
    more: bool = False
    state: bytes = b""
    state_seq: int = 0
