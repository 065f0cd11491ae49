"""Whether stores belong together in the order in which they were named, and what has to be done before they are used.

Rules of this file:

- Each store keeps its number, how many there are, and the name of the family: see `StoreSeat`. So a list in another order, one
  that lacks a store, and one with a store of another list are refused before anything is read or written by them.
- A list grows at its end, by stores that have nothing of the app. Users stay where they are: those who get a new home are noted
  there. The new stores take their seats first and the first store last, so what is interrupted is done again.
- The stores of an app that has had one store, without a seat, are a list of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actors.errors import StoreError
from actors.layers.stores.store_seat import FoundStore, StoreSeat


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
