"""Stores of a list belong together, and a list grows: driver to Session actors, at the start."""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages.operating.store_seat import FoundStore, StoreSeat
from actors.messages.protocol.base import Ack, Message
from actors.messages.protocol.request import Lane, Request, Route


class StoreSeatReply(Message, frozen=True, kw_only=True):
    """What the store has."""

    store: FoundStore


class GetStoreSeat(Request[StoreSeatReply], frozen=True, kw_only=True):
    """Ask what the store of a Session actor has of an app. The reply is StoreSeatReply."""

    route = Route.ACTOR
    lane = Lane.DIRECT

    app: str


class TakeStoreSeat(Request[Ack], frozen=True, kw_only=True):
    """Have the store keep its place in the list of an app's stores. The reply is Ack."""

    route = Route.ACTOR
    lane = Lane.DIRECT

    app: str
    seat: StoreSeat


class StoreUsers(Message, frozen=True, kw_only=True):
    """Users of a store."""

    users: Sequence[str] = ()


class ListStoreUsers(Request[StoreUsers], frozen=True, kw_only=True):
    """List users of whom the store has anything, in the order of their names. The reply is StoreUsers.

    Attributes:
        after: only those after this one; "": from the first.
        limit: at most so many.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    app: str
    after: str = ""
    limit: int = 1_000


class PlaceUsers(Request[Ack], frozen=True, kw_only=True):
    """Note that users are in another store. The reply is Ack.

    Attributes:
        digests: of the users: see `user_digest`.
        store: the number of that store, from 0.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    app: str
    digests: Sequence[bytes]
    store: int
