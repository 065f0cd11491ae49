"""A session store with all that features keep in it, and its two parts beside its logs: for several stores, and for operators.

A store of one's own inherits from `SessionStore`, and overrides the methods of what it has.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, cast

from actors.errors import StoreError
from actors.interfaces.stores import LogStore, lacking
from actors.layers.stores.batch import BatchInfo, BatchItem
from actors.layers.stores.records import (
    Arrival,
    ModelCallRow,
    OldSession,
    StoreSeat,
    TurnId,
    TurnName,
    UsageFilter,
    UsagePage,
    UsagePlace,
    UserPlace,
)
from actors.layers.stores.schedule import DuePlace, ScheduleRow
from actors.messages.session import SessionKey, SessionPlace
from actors.session.store.access import StoreAccess

MAX_BATCHES = 1_000
"""How many batches of an app a store keeps: the newest ones."""

FEW, MANY = 2, 200
"""Schedules that are read at a time, first and then: mostly there are few of one kind, and those behind are read in vain."""


class PlacedStore:
    """What a store needs that is one of several: each has the data of some users, and users are moved between them.

    All methods raise StoreUnavailableError and StoreError as those of LogStore do. Writes are on disk when a method returns; it
    raises WriterReplacedError and StoreRevertedError as `commit` does. A store that overrides nothing is the only one of an app.
    """

    def users(self, app: str, after: str, limit: int) -> list[str]:
        """The users of an app that have any data, by name: at most `limit`, after a user; "" is before all."""
        raise self._one_of_several("users")

    def seat(self, app: str) -> StoreSeat | None:
        """The position of the store in the list of an app's stores; None: it has none."""
        return None

    def take_seat(self, app: str, seat: StoreSeat) -> None:
        """Store another position in the list."""
        raise self._one_of_several("take_seat")

    def placements(self, app: str) -> Mapping[bytes, int]:
        """The number of the store of each user that is in another store, by digest of the user."""
        raise self._one_of_several("placements")

    def place_users(self, app: str, placements: Mapping[bytes, int]) -> None:
        """Note that users are in another store."""
        raise self._one_of_several("place_users")

    def placement(self, app: str, user: str) -> UserPlace | None:
        """The other store that a user is in; None: the user is in this one."""
        return None

    def user_rows(self, app: str, user: str, after: bytes) -> tuple[bytes, int, bytes]:
        """A part of the data of a user: the part, how many rows it has, and the position of the next part.

        The target of a move stores all parts. Then `leave` decides in one step that the user is there from now on; `admit` may
        follow at any time. So the user is in one store, wherever a move is interrupted.

        Args:
            after: the position of the part; b"" is the first. After the last part, b"" is returned with no rows.
        """
        raise self._moving("user_rows")

    def arrivals(self, app: str) -> Sequence[Arrival]:
        """The users whose move to this store has begun, and who are not admitted yet."""
        return ()

    def begin_arrival(self, app: str, arrival: Arrival, replaces: str) -> None:
        """Begin a move of a user to this store.

        Args:
            replaces: the token of an earlier move, whose parts are dropped; "": there is none.

        Raises:
            StoreConflictError: another move has begun.
            StoreError: the user has data here.
        """
        raise self._moving("begin_arrival")

    def stage(self, app: str, user: str, token: str, number: int, raw: bytes) -> None:
        """Store a part, by its number from 1. Raises StoreConflictError if another move has begun since."""
        raise self._moving("stage")

    def staged(self, app: str, user: str, token: str) -> Sequence[tuple[str, dict[str, Any]]]:
        """The rows of all parts, each with the name of its table. Raises StoreConflictError as `stage`."""
        raise self._moving("staged")

    def arrival_digest(self, app: str, user: str, token: str) -> bytes:
        """The digest of all parts, in their order. Raises StoreConflictError as `stage`."""
        raise self._moving("arrival_digest")

    def leave(self, app: str, user: str, placement: UserPlace, digest: bytes, before: bytes) -> None:
        """Remove all data of a user, and note in the same step which store the user is in now.

        A repetition for the same move does nothing.

        Args:
            digest: of all parts in the target.
            before: the digest of the parts that come before the rows, which the caller has compared.

        Raises:
            StoreError: the data have changed since they were read, or another move has moved the user.
        """
        raise self._moving("leave")

    def admit(self, app: str, user: str, token: str) -> None:
        """Write all rows of a user who has left the other store. A repetition does nothing. Raises as `stage` does."""
        raise self._moving("admit")

    def drop_arrival(self, app: str, user: str, token: str) -> None:
        """Drop the parts of a user that belong to this move."""
        raise self._moving("drop_arrival")

    def _one_of_several(self, method: str) -> StoreError:
        return lacking(self, "cannot be one of several stores", method)

    def _moving(self, method: str) -> StoreError:
        return lacking(self, "cannot move users", method)


class OperationsStore:
    """What operators need. A store that overrides nothing keeps only sessions, and raises StoreError for the rest.

    - Retention: `old_sessions` and `removals`, and the writes `NoteRemoval` and `ForgetRemoval`. A session with background runs
      cannot be deleted without the last three.
    - Archive: `long_sessions` and `archivable`, and the write `ArchiveEvents`.
    - Model calls: `model_calls` to `sessions_with_old_calls`, and the writes `AddModelCall` and `DeleteModelCalls`. Calls go with
      their session, and with the events that are hidden by a rewind.
    - Schedules: `schedule` to `next_schedules`, and the writes `AddSchedule`, `SetDueTime`, `AdvanceSchedule`, `RemoveSchedule`.
    - Batches: `batches` and `batch_items`, and the writes `PutBatch` and `ForgetBatches`.
    - Usage: `usage` and `turn_names`. The store keeps `TurnRow.usage`.
    - Updates: `open_versions`.

    All methods raise StoreUnavailableError and StoreError as those of LogStore do.
    """

    def old_sessions(
        self, app: str, user: str | None, before_s: float, *, limit: int, after: SessionPlace | None = None
    ) -> list[OldSession]:
        """Sessions that were created and written before a time, the oldest first. None has a turn that is open or paused.

        Args:
            app, user: whose sessions; with None those of all users of the app.
            before_s: their creation, their last write and their last event are before this time, in seconds since the epoch.
            limit: the most sessions to return.
            after: only sessions behind this one in the list.
        """
        raise lacking(self, "cannot be pruned", "old_sessions")

    def removals(self, app: str, user: str | None) -> list[OldSession]:
        """The sessions of a user, with None of all users of the app, whose removal is noted."""
        return []

    def long_sessions(
        self, app: str, user: str | None, more_than: int, *, limit: int, after: SessionKey | None = None
    ) -> list[SessionKey]:
        """The sessions of a user, with None of all users of the app, that have more than `more_than` events, in order.

        Args:
            limit: the most to return.
            after: only sessions behind this one.
        """
        raise lacking(self, "has no archive", "long_sessions")

    def archivable(self, key: SessionKey, before_s: float, *, keep: int, after_seq: int = 0) -> list[int]:
        """The positions of the next events of a session that can be archived, as many as one transaction should move.

        They begin with the first event that is not archived, and end before the first one that is not older than `before_s`,
        that is one of the newest `keep`, or that begins an open or paused turn.

        Args:
            after_seq: only events behind this position.
        """
        raise lacking(self, "has no archive", "archivable")

    def erase_traces(self) -> None:
        """Erase deleted data from the files, and not only from the tables. Files that others keep open may have to wait."""

    def model_calls(
        self, key: SessionKey, invocation_id: str, *, after: tuple[float, str] | None = None, limit: int
    ) -> list[ModelCallRow]:
        """The calls of a turn, oldest first.

        Args:
            after: only calls after this one, by its `begun_s` and its id.
            limit: the most to return.
        """
        return []

    def model_call_parts(self, key: SessionKey, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The stored parts of requests in a session, by digest."""
        return {}

    def sessions_with_old_calls(self, app: str, before_s: float, *, limit: int) -> list[SessionKey]:
        """Sessions of an app with calls that began before a time, in seconds since the epoch, in any order.

        Args:
            limit: the most to return.
        """
        return []

    def schedule(self, app: str, user: str, name: str) -> ScheduleRow | None:
        """The schedule of a user with a name, or None."""
        raise lacking(self, "keeps no schedules", "schedule")

    def schedules(
        self, app: str, user: str | None, *, limit: int | None = None, after: tuple[str, str] | None = None
    ) -> list[ScheduleRow]:
        """The schedules of a user, with None of all users of the app, by user and name.

        Args:
            limit: the most to return; None is no limit.
            after: only schedules behind that of this user and name.
        """
        return []

    def schedules_with(self, app: str, user: str, prefix: str, *, limit: int | None = None) -> list[ScheduleRow]:
        """The schedules of a user whose names begin with a prefix, by name.

        Args:
            limit: the most to return; None is no limit.
        """
        found: list[ScheduleRow] = []
        at_once = FEW
        while True:
            page = self.schedules(app, user, limit=at_once, after=(user, found[-1].name if found else prefix))
            found += [row for row in page if row.name.startswith(prefix)]
            if len(page) < at_once or not page[-1].name.startswith(prefix) or (limit is not None and len(found) >= limit):
                return found[:limit]
            at_once = MANY if limit is None else min(MANY, limit - len(found))

    def schedules_named(self, app: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], ScheduleRow]:
        """The schedules of an app with the given users and names, by user and name, without those that do not exist."""
        found = {place: self.schedule(app, *place) for place in places}
        return {place: row for place, row in found.items() if row is not None}

    def next_schedules(self, app: str, *, limit: int, after: DuePlace | None = None) -> list[ScheduleRow]:
        """The schedules of an app that have a due time, the earliest first, by an index.

        Args:
            limit: the most to return.
            after: only schedules behind this position.
        """
        return []

    def batches(self, app: str, batch_id: str = "", *, limit: int) -> list[BatchInfo]:
        """Batches of an app, newest first.

        Args:
            batch_id: only that one; "": all.
            limit: the most to return.
        """
        raise lacking(self, "keeps no batches", "batches")

    def batch_items(self, app: str, batch_id: str, *, after: int, limit: int) -> list[BatchItem]:
        """The stored items of a batch, by position.

        Args:
            after: only items behind this position.
            limit: the most to return.
        """
        raise lacking(self, "keeps no batches", "batch_items")

    def usage(self, wanted: UsageFilter, after: UsagePlace | None = None) -> UsagePage:
        """The sums of turns. The cost must not grow with their events, nor with turns that the filter does not want.

        Args:
            wanted: which turns. Those of one user come on one page.
            after: the `next` of the page before.
        """
        raise lacking(self, "reports no usage", "usage")

    def turn_names(self, ids: Sequence[TurnId]) -> Mapping[TurnId, TurnName]:
        """The names of some hundred turns, without turns that were deleted meanwhile.

        Args:
            ids: from a page of usage.
        """
        raise lacking(self, "reports no usage", "turn_names")

    def open_versions(self, app: str) -> Sequence[str] | None:
        """The versions of turns of an app that run or are paused; None: the store does not know them.

        The cost must not grow with turns that are over.
        """
        return None


class SessionStore(LogStore, PlacedStore, OperationsStore, ABC):
    """Stores the logs and states of sessions, and what features keep.

    A store of one's own inherits from this class and implements the abstract methods. Each of the others works without being
    overridden, or raises a StoreError that names it. A store without recorded model calls, schedules or batches raises StoreError
    from `commit` for `AddSchedule` and `PutBatch`, and ignores `AddModelCall` and all other writes about these three.
    """


def store_of(access: StoreAccess) -> SessionStore:
    """The store of a Session actor, for a service. Deployments have no other stores than these."""
    return cast(SessionStore, access.store)
