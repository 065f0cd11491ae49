"""The schedules of an app, for programs and for the tools of agents."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from actors.errors import ScheduleNotFoundError
from actors.errors.hints import did_you_mean
from actors.interfaces.clock import Clock, WallClock
from actors.layers.schedules.messages import ChangeSchedule, CreateSchedule, ListSchedules, ScheduleChange
from actors.layers.stores.schedule import Schedule, SchedulePlan, ScheduleRow, shown_schedule
from actors.messages.session import SessionKey
from actors.refs import SessionRef

PAGE = 1_000
"""Schedules that are asked for at once."""


def new_schedule_id() -> str:
    """An id for a schedule, with which the ids of its turns begin."""
    return f"s-{uuid.uuid4().hex}"


class ScheduleClient:
    """Asks the Session actors about schedules: the changes of one go to the actor that serves its session.

    Attributes:
        clock: of this process.
    """

    def __init__(self, session: SessionRef, app: str, clock: Clock | None = None) -> None:
        self._session = session
        self._app = app
        self.clock: Clock = clock or WallClock()

    async def create(
        self, key: SessionKey, name: str, plan: SchedulePlan, schedule_id: str = "", most_of_agents: int | None = None
    ) -> Schedule:
        """Create a schedule, unless the one with this name and id is there.

        Args:
            most_of_agents: how many schedules that agents have made the user may have, this one included; None: any number.

        Raises:
            RequestError: what is wrong with it.
            StoreError: the store failed.
        """
        message = CreateSchedule(
            key=key, name=name, id=schedule_id or new_schedule_id(), plan=plan, most_of_agents=most_of_agents
        )
        return shown_schedule((await self._session.ask(message)).schedules[0])

    async def list(
        self, user: str | None = None, limit: int | None = None, after: tuple[str, str] | None = None
    ) -> Sequence[Schedule]:
        """The schedules of a user, or of all, by user and name. Raises StoreError."""
        found: list[ScheduleRow] = []
        while limit is None or len(found) < limit:
            most = PAGE if limit is None else min(PAGE, limit - len(found))
            page = await self._listed(ListSchedules(app=self._app, user=user, limit=most, after=after))
            found += page
            if len(page) < most:
                break
            after = (page[-1].key.user, page[-1].name)
        return [shown_schedule(row) for row in found]

    async def get(self, user: str, name: str) -> Schedule:
        """A schedule. Raises ScheduleNotFoundError, StoreError."""
        return shown_schedule(await self._found(user, name))

    async def change(self, user: str, name: str, change: ScheduleChange) -> Schedule | None:
        """Pause, resume or delete a schedule; None when it is deleted.

        Raises ScheduleNotFoundError, InvalidScheduleError, StoreError.
        """
        row = await self._found(user, name)
        message = ChangeSchedule(key=row.key, name=name, id=row.id, change=change)
        changed = next(iter((await self._session.ask(message)).schedules), None)
        if changed is None and change != "delete":
            raise await self._not_found(user, name)
        return shown_schedule(changed) if changed is not None else None

    async def _listed(self, message: ListSchedules) -> Sequence[ScheduleRow]:
        return (await self._session.ask(message)).schedules

    async def _found(self, user: str, name: str) -> ScheduleRow:
        found = await self._listed(ListSchedules(app=self._app, user=user, name=name, limit=1))
        if not found:
            raise await self._not_found(user, name)
        return found[0]

    async def _not_found(self, user: str, name: str) -> ScheduleNotFoundError:
        others = await self._listed(ListSchedules(app=self._app, user=user, limit=PAGE))
        return ScheduleNotFoundError(name, user, did_you_mean(name, [other.name for other in others]))
