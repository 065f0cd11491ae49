"""Following turns by long polls: driver to Session actor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from actors.messages.protocol.base import Message, StoredEvent
from actors.messages.protocol.outcomes import AnyOutcome
from actors.messages.session import SessionKey


# ------------------------------------------------------------------------------------------------- driver -> Session
class Subscribe(Message, frozen=True, kw_only=True):
    """Tell a subscriber of a turn's events behind `after_seq`."""

    subscriber: str
    key: SessionKey
    invocation_id: str
    after_seq: int = 0


TurnStatus = Literal["waiting", "running", "lost", "ended"]
"""Where a turn is: in the queue, in a Runner, open without a Runner that is known to run it, or ended (also: paused)."""


class Subscribed(Message, frozen=True, kw_only=True):
    """The subscriber follows the turn. One that is lost runs again only when its Runner is asked for it."""

    status: TurnStatus


class Poll(Message, frozen=True, kw_only=True):
    """Wait for news of all turns that a subscriber follows.

    Attributes:
        ack: the number of the last News that it has got. `mailbox`: see there.
    """

    subscriber: str
    ack: int = 0
    mailbox: str = ""


class TurnNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What happened in one turn since the last News: events and partials in the order in which they came.

    Attributes:
        events: partial events have the place 0.
        outcome: set when the turn has ended; nothing follows.
    """

    key: SessionKey
    invocation_id: str
    events: Sequence[StoredEvent] = ()
    outcome: AnyOutcome | None = None


class News(Message, frozen=True, kw_only=True):
    """News number `number`; `known` is False when the subscriber is not known (any more) and has to subscribe again.

    Attributes:
        mailbox: where they come from. When it is another one than before, what that was to tell is lost, as the Session actor
            was; and the subscriber has to subscribe again, although this one may know it already, by a turn that was begun since.
    """

    number: int = 0
    mailbox: str = ""
    turns: Sequence[TurnNews] = ()
    known: bool = True


class ReadTurn(Message, frozen=True, kw_only=True):
    """Ask for what a turn's agents have said behind `after_seq`, a page of it."""

    key: SessionKey
    invocation_id: str
    after_seq: int = 0


class TurnRead(Message, frozen=True, kw_only=True):
    """A page of a turn.

    Attributes:
        read_to_seq: the log was read to that place.
        more: there is more behind it; ask again.
    """

    events: Sequence[StoredEvent]
    read_to_seq: int
    more: bool = False


class Unsubscribe(Message, frozen=True, kw_only=True):
    """A subscriber goes away."""

    subscriber: str
