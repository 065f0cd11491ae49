"""Users move from one store to another, and stores belong together in a list: driver to Session actors.

The driver holds the user in the store of now, has the other one keep all that there is of the user, and then has the first one
remove it and note where the user is, in one step: from then on the user is in the other store, which writes what it has kept.

Each move has a token. The store of now takes steps of the one that has the user held, the other one of the one whose parts it
keeps: a move that is late, or was given up, changes nothing in either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from actors.layers.stores.records import Arrival, FoundStore, StoreSeat
from actors.messages.protocol.base import Ack, Lane, Message, R, Request, Route


class StoreRequest(Request[R], Generic[R], frozen=True, kw_only=True):
    """A request to a Session actor of one of several stores, about an app."""

    route = Route.ACTOR
    lane = Lane.DIRECT

    app: str


class UserRows(Message, frozen=True, kw_only=True):
    """A part.

    Attributes:
        raw: the rows, encoded.
        rows: how many the session store has of them.
        next: where the next part begins; b"" after the last one.
    """

    raw: bytes = b""
    rows: int = 0
    next: bytes = b""


class ReadUserRows(StoreRequest[UserRows], frozen=True, kw_only=True):
    """Read a part of all that a store, and the memory beside it, have of a user.

    Attributes:
        after: where it begins; b"" at the begin.
    """

    user: str
    after: bytes = b""


class BeginArrival(StoreRequest[Ack], frozen=True, kw_only=True):
    """Have a store keep parts of a user from now on.

    Attributes:
        token: tells the move from others.
        source: the number of the store in which the user is, from 0.
        replaces: the token of a move that has ended, whose parts are dropped; "": the store keeps none. It is refused where
            the store keeps those of another.
    """

    user: str
    token: str
    source: int
    replaces: str = ""


class StageUserRows(StoreRequest[Ack], frozen=True, kw_only=True):
    """Have a store keep a part, by its number from 1."""

    user: str
    token: str
    number: int
    raw: bytes


class ArrivalDigest(Message, frozen=True, kw_only=True):
    """The digest of all parts that are kept: see `actors.layers.placing.rules`."""

    digest: bytes


class GetArrivalDigest(StoreRequest[ArrivalDigest], frozen=True, kw_only=True):
    """Ask for the digest of all parts that a store keeps for a move."""

    user: str
    token: str


class LeaveStore(StoreRequest[Ack], frozen=True, kw_only=True):
    """Have a store remove all of a user whom a move holds, and note that the user is in store `to`.

    Attributes:
        rows: how many rows were read.
        token: of the move.
        digest: of what the other store keeps. The user stays where something else is here now.
    """

    user: str
    to: int
    rows: int
    token: str = ""
    digest: bytes = b""


class AdmitUser(StoreRequest[Ack], frozen=True, kw_only=True):
    """Have a store write all that it keeps of a user, who has left the other store."""

    user: str
    token: str


class DropArrival(StoreRequest[Ack], frozen=True, kw_only=True):
    """Have a store forget what it keeps for a move that has ended, of a user who is in another one.

    Attributes:
        with_batches: the user is deleted: items of batches that name the user are forgotten, too.
        token: of the move; "": it keeps nothing.
    """

    user: str
    with_batches: bool = False
    token: str = ""


class Arrivals(Message, frozen=True, kw_only=True):
    """Users of whom parts are kept."""

    users: Sequence[Arrival] = ()


class ListArrivals(StoreRequest[Arrivals], frozen=True, kw_only=True):
    """List the users of whom a store keeps parts."""


class PlacementReply(Message, frozen=True, kw_only=True):
    """What the note says.

    Attributes:
        store: the number of the other store; None: there is no note.
        token: of the move by which the user has left; "": by none; None: a release without tokens has written the note.
    """

    store: int | None = None
    token: str | None = None


class GetPlacement(StoreRequest[PlacementReply], frozen=True, kw_only=True):
    """Ask where a store says that a user is."""

    user: str


class StoreSeatReply(Message, frozen=True, kw_only=True):
    """What the store has."""

    store: FoundStore


class GetStoreSeat(StoreRequest[StoreSeatReply], frozen=True, kw_only=True):
    """Ask what the store of a Session actor has of an app."""


class TakeStoreSeat(StoreRequest[Ack], frozen=True, kw_only=True):
    """Have the store keep its place in the list of an app's stores."""

    seat: StoreSeat


class StoreUsers(Message, frozen=True, kw_only=True):
    """Users of a store."""

    users: Sequence[str] = ()


class ListStoreUsers(StoreRequest[StoreUsers], frozen=True, kw_only=True):
    """List users of whom the store has anything, in the order of their names.

    Attributes:
        after: only those after this one; "": from the first.
        limit: at most so many.
    """

    after: str = ""
    limit: int = 1_000


class PlaceUsers(StoreRequest[Ack], frozen=True, kw_only=True):
    """Note that users are in another store.

    Attributes:
        digests: of the users: see `user_digest`.
        store: the number of that store, from 0.
    """

    digests: Sequence[bytes]
    store: int
