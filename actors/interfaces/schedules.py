"""What a SessionStore needs besides, so that schedules can be kept."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from actors.messages.operating.schedule import DuePlace, ScheduleRow


@runtime_checkable
class KeepsSchedules(Protocol):
    """A SessionStore that keeps schedules. It also does `AddSchedule`, `SetDueTime`, `AdvanceSchedule` and
    `RemoveSchedule`.

    All methods raise StoreUnavailableError and StoreError as those of SessionStore do.
    """

    def schedule(self, app: str, user: str, name: str) -> ScheduleRow | None:
        """The schedule of a user with a name, or None."""
        ...

    def schedules(
        self, app: str, user: str | None, *, limit: int | None = None, after: tuple[str, str] | None = None
    ) -> list[ScheduleRow]:
        """The schedules of a user, with None of all users of the app, by user and name.

        Args:
            limit: at most so many; None is no limit.
            after: only those after the one of this user and name.
        """
        ...

    def next_schedules(self, app: str, *, limit: int, after: DuePlace | None = None) -> list[ScheduleRow]:
        """The schedules of an app that have a due time, the one that is due first coming first, by an index.

        Args:
            limit: at most so many.
            after: only those after this place.
        """
        ...
