"""One of several stores: what a SessionStore needs besides, and what a MemoryStore beside it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from actors.messages.memory import MemoryEntry
from actors.messages.operating.store_seat import Arrival, StoreSeat, UserPlace


@runtime_checkable
class ListsUsers(Protocol):
    """A SessionStore or MemoryStore that says of which users it has anything."""

    def users(self, app: str, after: str, limit: int) -> list[str]:
        """The users of an app of whom there is anything, by name, at most `limit`, those after one; "" is before all.

        Raises:
            StoreUnavailableError: the store is away or locked.
            StoreError: the store failed.
        """
        ...


@runtime_checkable
class PlacesUsers(ListsUsers, Protocol):
    """A SessionStore that can be one of several, each of which has the data of some users.

    All methods raise StoreUnavailableError and StoreError as those of SessionStore do. What writes is on disk when it returns,
    and raises WriterReplacedError and StoreRevertedError as `commit` does.
    """

    def seat(self, app: str) -> StoreSeat | None:
        """The store's place in the list of an app's stores; None: it has none."""
        ...

    def take_seat(self, app: str, seat: StoreSeat) -> None:
        """Keep another place in the list."""
        ...

    def placements(self, app: str) -> Mapping[bytes, int]:
        """The users that are in another store, by digest: the number of that store."""
        ...

    def place_users(self, app: str, placements: Mapping[bytes, int]) -> None:
        """Note that users are in another store: its number by digest of each."""
        ...


@runtime_checkable
class MovesUsers(PlacesUsers, Protocol):
    """A SessionStore from which a user can be moved to another store of its kind, and back.

    The rows of the user are read in parts, and kept by the other store. When it has all of them `leave` decides that the user is
    there from then on; `admit` may follow at any time. So the user is in one store, wherever a move is interrupted. Errors
    are those of `PlacesUsers`.
    """

    def placement(self, app: str, user: str) -> UserPlace | None:
        """The other store that a user is in; None: no note says so."""
        ...

    def user_rows(self, app: str, user: str, after: bytes) -> tuple[bytes, int, bytes]:
        """A part of all that the store has of a user, how many rows it has, and where the next one begins.

        Args:
            after: where it begins; b"" at the begin. b"" comes back after the last one, with no rows.
        """
        ...

    def arrivals(self, app: str) -> Sequence[Arrival]:
        """The users of whom parts are kept."""
        ...

    def begin_arrival(self, app: str, arrival: Arrival, replaces: str) -> None:
        """Keep parts of a user from now on.

        Args:
            replaces: the move whose parts are dropped; "": none are kept.

        Raises:
            StoreConflictError: those of another move are kept.
            StoreError: the user has data here.
        """
        ...

    def stage(self, app: str, user: str, token: str, number: int, raw: bytes) -> None:
        """Keep a part, by its number from 1. Raises StoreConflictError where another move has begun since."""
        ...

    def staged(self, app: str, user: str, token: str) -> Sequence[tuple[str, dict[str, Any]]]:
        """The rows of all parts, each with the name of its table. Raises StoreConflictError as `stage`."""
        ...

    def arrival_digest(self, app: str, user: str, token: str) -> bytes:
        """The digest of all parts, in their order. Raises StoreConflictError as `stage`."""
        ...

    def leave(self, app: str, user: str, placement: UserPlace, digest: bytes, before: bytes) -> None:
        """Remove all that there is of a user, and note in the same step which store the user is in now.

        It is done once for a move.

        Args:
            digest: of the parts that the other store keeps; `before`: of those that come before the rows, which the caller has
                looked at.

        Raises:
            StoreError: what is here is not what was read, or the user is elsewhere by another move.
        """
        ...

    def admit(self, app: str, user: str, token: str) -> None:
        """Have a user here from now on, with all rows. One who is here is no error. Raises StoreConflictError as `stage`."""
        ...

    def drop_arrival(self, app: str, user: str, token: str) -> None:
        """Forget the parts of a user, if they are kept for this move."""
        ...


@runtime_checkable
class GivesMemory(ListsUsers, Protocol):
    """A MemoryStore whose entries of a user can be moved."""

    def remembered(self, app: str, user: str, after: str, limit: int) -> Sequence[tuple[str, Sequence[MemoryEntry]]]:
        """The entries of a user by session, in the order of these, of at most `limit` sessions after one; "" is before all."""
        ...
