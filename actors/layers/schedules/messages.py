"""Creating, listing and changing schedules: driver, or the tool of an agent, to Session actor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from actors.messages.operating.schedule import SchedulePlan, ScheduleRow
from actors.messages.protocol.base import Message
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.session import SessionKey

ScheduleChange = Literal["pause", "resume", "delete"]
"""What may be done to a schedule."""


class SchedulesReply(Message, frozen=True, kw_only=True):
    """Schedules as they are stored."""

    schedules: Sequence[ScheduleRow] = ()


class CreateSchedule(Request[SchedulesReply], frozen=True, kw_only=True):
    """Create a schedule. The reply is SchedulesReply with it.

    Attributes:
        key: the session that gets the messages.
        name: its name among those of the user.
        id: chosen by the sender. A schedule that is there with this name and this id was created by this very request.
        plan: what of it does not change; the Session actor sets when its intervals begin.
        most_of_agents: how many schedules that agents have made the user may have, this one included; None: no limit but that of
            the deployment.
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    name: str
    id: str
    plan: SchedulePlan
    most_of_agents: int | None = None


class ListSchedules(Request[SchedulesReply], frozen=True, kw_only=True):
    """List schedules by user and name. The reply is SchedulesReply.

    Attributes:
        user: of that user only; None: of all users.
        name: only that of this name; "": of any. It needs a user.
        limit: at most so many.
        after: only those after the one of this user and name.
    """

    route = Route.USER
    lane = Lane.QUERY

    app: str
    user: str | None = None
    name: str = ""
    limit: int
    after: tuple[str, str] | None = None

    def joined(self, replies: Sequence[SchedulesReply]) -> SchedulesReply:
        """Those of all stores. A user who is moved meanwhile may be in two of them, and is listed once."""
        once = {(row.key, row.name): row for reply in replies for row in reply.schedules}.values()
        return SchedulesReply(schedules=sorted(once, key=lambda row: (row.key.user, row.name))[: self.limit])


class ChangeSchedule(Request[SchedulesReply], frozen=True, kw_only=True):
    """Change a schedule. The reply is SchedulesReply, with the schedule as it is now, or without any when it is not there.

    Attributes:
        key: the session that gets its messages.
        name, id: the schedule.
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    name: str
    id: str
    change: ScheduleChange
