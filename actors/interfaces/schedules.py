"""The schedules of a user, as tools see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.messages.operating.schedule import Schedule, SchedulePlan


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
