"""Several stores: which of them has a user, and which stores belong together.

Rules of where a user is, the same in every process, and after every restart:

- Each user has a home, by rendezvous hashing of app and user over the numbers of the stores. With one store more, only users of
  that store get another home.
- A user who is not at home stands in a note of the store at home, and of each store that the user has left. The note has a digest
  in place of the user's name, and the number of the next store to ask. It stays when the user's data are deleted.

Rules of a list of stores:

- Each store keeps its number, how many there are, and the name of the family: see `StoreSeat`. So a list in another order, one
  that lacks a store, and one with a store of another list are refused before anything is read or written by them.
- A list grows at its end, by stores that have nothing of the app. Users stay where they are: those who get a new home are noted
  there. The new stores take their seats first and the first store last, so what is interrupted is done again.
- The stores of an app that has had one store, without a seat, are a list of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from actors.errors import StoreError
from actors.layers.stores.records import FoundStore, StoreSeat
from actors.messages.session import SessionKey
from actors.rules.sharding import shard_of

DIGEST_BYTES = 16
"""Length of a digest in a note: two of a billion users have the same one by a chance of one in 10 ** 20."""


def home_of(app: str, user: str, stores: int) -> int:
    """The number of the store in which a user is without a note, below `stores`."""
    # No app's name has such a character in it: the shards of one store are chosen by other values.
    return shard_of(SessionKey(f"store\0{app}", user, ""), stores)


def user_digest(app: str, user: str) -> bytes:
    """The bytes that stand in a note for a user."""
    return blake2b(f"{app}\0{user}".encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def digest_with(before: bytes, part: bytes) -> bytes:
    """The digest of a user's data with one part more.

    Args:
        before: the digest of the parts before it; b"" if it is the first.
    """
    return blake2b(before + part, digest_size=DIGEST_BYTES).digest()


class AllSeated(NamedTuple):
    """The stores belong together as they were named."""


class Growth(NamedTuple):
    """Stores have joined the list, or are the first ones of it.

    Attributes:
        family: of the list; "": it has no name yet.
        before: how many stores it had; users may be in these.
    """

    family: str
    before: int


Seating = AllSeated | Growth


def seating(app: str, found: Sequence[FoundStore]) -> Seating:
    """Decide what becomes of the stores that an app is started with.

    Raises:
        StoreError: they are not, or not in this order, the stores of the app; the message says what to name instead.
    """
    first = found[0].seat
    known = first.of if first is not None else 1
    if len(found) == 1 and first is None:
        return AllSeated()
    for place, each in enumerate(found):
        _check(app, place, each, len(found), known, first)
    if first is not None and first.of == len(found):
        return AllSeated()
    if found[0].has_app_state:
        raise StoreError(
            f"{found[0].name} has state of app {app!r} under app: keys, which several stores cannot share: it goes with one store"
        )
    return Growth(first.family if first is not None else "", known)


def _check(app: str, place: int, store: FoundStore, named: int, known: int, first: StoreSeat | None) -> None:
    """Raise StoreError if a store cannot stand at a place of the list."""
    seat = store.seat
    if seat is not None and seat.number != place:
        raise StoreError(
            f"{store.name} is number {seat.number + 1} of the {seat.of} stores of app {app!r}, and is named as number "
            f"{place + 1}: name all of them in their order"
        )
    if place == 0 and known > named:
        raise StoreError(
            f"{store.name} is the first of {known} stores of app {app!r}, and {named} {'is' if named == 1 else 'are'} named: "
            "name all of them in their order"
        )
    if seat is not None and first is not None and seat.family != first.family:
        raise StoreError(f"{store.name} is a store of another list than the first one of app {app!r}: name one that is empty")
    if seat is None and place > 0 and place < known:
        raise StoreError(
            f"{store.name} is not number {place + 1} of the {known} stores of app {app!r}: it has no place among them"
        )
    if seat is None and known <= place and not store.is_empty:
        raise StoreError(f"{store.name} has data of app {app!r} and is not one of its stores: name one that is empty")
