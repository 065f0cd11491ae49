"""The place of a store among the stores of an app."""

from __future__ import annotations

import msgspec


class StoreSeat(msgspec.Struct, frozen=True, array_like=True):
    """What a store keeps of the list of which it is one.

    Attributes:
        family: the same in all stores of the list, and in no others.
        number: its place in the list, from 0.
        of: how many stores the list has.
    """

    family: str
    number: int
    of: int


class FoundStore(msgspec.Struct, frozen=True, array_like=True):
    """What a Session actor says of its store.

    Attributes:
        name: the store, without a password.
        seat: its place in a list; None: it is in none.
        is_empty: it has nothing of the app; not looked at where it has a seat, or is the only one.
        has_app_state: the app has state in it that all of its users share; as `is_empty`.
    """

    name: str
    seat: StoreSeat | None = None
    is_empty: bool = True
    has_app_state: bool = False


class UserPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where a user is who is in another store.

    Attributes:
        store: its number, from 0.
        token: of the move by which the user has left; "": by none, the list has grown; None: a release without tokens wrote it.
    """

    store: int
    token: str | None


class Arrival(msgspec.Struct, frozen=True, array_like=True):
    """A user who is being moved to a store, or was to be.

    Attributes:
        token: tells the move from others of the user.
        source: the number of the store in which the user was, from 0.
    """

    user: str
    token: str
    source: int
