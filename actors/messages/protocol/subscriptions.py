"""Following turns by long polls: driver to Session actor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from actors.messages.protocol.base import Ack, Lane, Message, Request, Route, StoredEvent
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.session import SessionKey

WHOLE_SESSION = " *"
"""Stands for the id of a turn where all events of a session are meant, users' messages too. No id has space around it."""


class Subscribed(Message, frozen=True, kw_only=True):
    """The subscriber follows the turn. A turn that is lost runs again only when its Runner is asked for it (RecoverTurn)."""

    status: TurnStatus


class Subscribe(Request[Subscribed], frozen=True, kw_only=True):
    """Deliver a turn's events, or those of the WHOLE_SESSION, after `after_seq` to a subscriber. The reply is Subscribed.

    Attributes:
        store: the number of the store whose Session actor the subscriber polls; None: the one that gets this.
        fingerprint: of the request that the turn has to have begun with: see StartTurn. "": it may be any.
    """

    route = Route.SESSION
    lane = Lane.READ

    subscriber: str
    key: SessionKey
    invocation_id: str
    after_seq: int = 0
    store: int | None = None
    fingerprint: str = ""


TurnStatus = Literal["waiting", "running", "lost", "ended"]
"""Where a turn is: not begun, in a Runner, open without a Runner that is known to run it, or ended (a paused one, too)."""


class News(Message, frozen=True, kw_only=True):
    """The next News of a subscriber.

    Attributes:
        number: counts the News of one outbox, from 1.
        outbox: the outbox from which it comes. When it changes, the Session actor was lost with all undelivered news: the
            subscriber has to subscribe again, even if the new one knows it already by a turn that was begun since.
        known: False when the Session actor does not know the subscriber (any more): it has to subscribe again.
    """

    number: int = 0
    outbox: str = ""
    turns: Sequence[TurnNews] = ()
    known: bool = True


class Poll(Request[News], frozen=True, kw_only=True):
    """Wait for news of all turns that a subscriber follows. The reply is News.

    Attributes:
        ack: the number of the last News that the subscriber has received.
        outbox: the outbox from which it came; "" before the first.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    subscriber: str
    ack: int = 0
    outbox: str = ""


class TurnNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What happened in one turn since the last News: events and partials in the order in which they came.

    Attributes:
        events: partial events have position 0.
        answers: all that was streamed of the answers that are not complete yet, from their beginnings and merged. It comes
            after `events`, when the subscriber has begun to follow the turn; it may have a part of it already.
        outcome: set when the turn has ended; nothing follows.
        is_dropped: the turn has left the queue and has not begun, for example since its Runner was lost. Nothing follows: the
            subscriber has to subscribe again, and finds the turn if its request has come again.
        opened_seq: the position of the user's event behind which the turn has ended. One that goes on after a pause ends again
            behind a later event. 0 when it has not ended, or had not begun.
    """

    key: SessionKey
    invocation_id: str
    events: Sequence[StoredEvent] = ()
    outcome: AnyOutcome | None = None
    opened_seq: int = 0
    answers: Sequence[StoredEvent] = ()
    is_dropped: bool = False


class TurnRead(Message, frozen=True, kw_only=True):
    """A page of a turn.

    Attributes:
        read_to_seq: the last position of the log that was looked at.
        more: the log goes on after it; ask again.
    """

    events: Sequence[StoredEvent]
    read_to_seq: int
    more: bool = False


class ReadTurn(Request[TurnRead], frozen=True, kw_only=True):
    """Ask for a page of the agents' events in a turn after `after_seq`."""

    route = Route.SESSION
    lane = Lane.READ

    key: SessionKey
    invocation_id: str
    after_seq: int = 0


class Unsubscribe(Request[Ack], frozen=True, kw_only=True):
    """A subscriber goes away, or with a turn follows only that turn no more."""

    route = Route.ACTOR
    lane = Lane.DIRECT

    subscriber: str
    key: SessionKey | None = None
    invocation_id: str = ""
