"""Schedules: what a SessionStore needs besides to keep them, and what tools see of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from actors.messages.operating.schedule import DuePlace, Schedule, SchedulePlan, ScheduleRow


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


class ScheduleAccess(Protocol):
    """The schedules of one user, for the tools that run in a session of the user's."""

    def now_s(self) -> float:
        """The time, in seconds since the epoch."""
        ...

    async def create(self, name: str, plan: SchedulePlan, schedule_id: str, most_of_agents: int) -> Schedule:
        """Create a schedule for the session, unless the one with this name and id is there.

        Args:
            most_of_agents: how many schedules that agents have made the user may have, this one included.

        Raises:
            RequestError: what is wrong with it.
            StoreError: the store failed.
        """
        ...

    async def list(self) -> Sequence[Schedule]:
        """All schedules of the user. Raises StoreError."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a schedule of the user. Raises ScheduleNotFoundError, StoreError."""
        ...
