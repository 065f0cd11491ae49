"""Creating, listing and changing schedules, from drivers and tools; and what is due of them, from Runners: to Session actors.

Each Runner has a long poll at each Session actor. Its reply has what is due of the sessions that both serve; the Runner starts
these turns, and asks for what comes after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from actors.layers.stores.schedule import DuePlace, SchedulePlan, ScheduleRow, WaitingMessage
from actors.messages.config import DEFAULT_RUN_CONFIG, RunConfig
from actors.messages.content import Content
from actors.messages.protocol.base import Ack, Lane, Message, Request, Route
from actors.messages.protocol.turns import NotLeader, ScheduledTime
from actors.messages.session import ONLY_SHARD, SessionKey, Shard

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
    """List schedules by user and name.

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
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    name: str
    id: str
    change: ScheduleChange


class WatchSchedules(Request[Ack], frozen=True, kw_only=True):
    """Start turns from now on when schedules are due: driver to Runner. Sent again, it changes nothing."""

    route = Route.ALL


class DueReply(Message, frozen=True, kw_only=True):
    """What is due, in order.

    Attributes:
        turns: the turns that are to be started. There may be more after the last.
        after: where to go on.
    """

    turns: Sequence[DueTurn] = ()
    after: DuePlace | None = None
    number: int = 0


class AwaitDue(Request[DueReply | NotLeader], frozen=True, kw_only=True):
    """Wait until schedules are due. The reply is DueReply or NotLeader. A newer request of the same Runner ends the wait.

    Attributes:
        runner, term: of the Runner: see AnnounceRunner.
        shard: the sessions whose turns it runs.
        after: only those that are due after this one: the Runner has those before.
        number: of the reply that said so. If that was not the last one, what is due is read from the first one again.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    app: str
    runner: str
    term: int = 0
    shard: Shard = ONLY_SHARD
    after: DuePlace | None = None
    number: int = 0


class DueTurn(Message, frozen=True, kw_only=True):
    """A turn that a schedule makes now.

    Attributes:
        place: of its schedule among those that are due.
        message: the message that it is, if it is one that has waited.
    """

    key: SessionKey
    place: DuePlace
    time: ScheduledTime
    content: Content
    config: RunConfig = DEFAULT_RUN_CONFIG
    message: WaitingMessage | None = None


class PassDueTime(Request[Ack], frozen=True, kw_only=True):
    """A due time makes no turn, or has made it: the schedule goes on to the next.

    Attributes:
        error: why it makes none; "": it has made its turn.
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    time: ScheduledTime
    error: str = ""
