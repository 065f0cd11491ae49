"""What is due: Runner to Session actor.

Each Runner has a long poll at each Session actor. Its reply has what is due of the sessions that both serve; the Runner starts
these turns, and asks for what comes after them.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages.config import DEFAULT_RUN_CONFIG, RunConfig
from actors.messages.content import Content
from actors.messages.operating.schedule import DuePlace, ScheduledTime
from actors.messages.protocol.base import Ack, Message
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.protocol.turns import NotLeader
from actors.messages.session import ONLY_SHARD, SessionKey, Shard


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


class AwaitDue(Request[DueReply | NotLeader], frozen=True, kw_only=True):
    """Wait until schedules are due. The reply is DueReply or NotLeader. A newer request of the same Runner ends the wait.

    Attributes:
        runner, term: of the Runner: see AnnounceRunner.
        shard: the sessions whose turns it runs.
        after: only those that are due after this one: the Runner has those before.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    app: str
    runner: str
    term: int = 0
    shard: Shard = ONLY_SHARD
    after: DuePlace | None = None


class DueTurn(Message, frozen=True, kw_only=True):
    """A turn that a schedule makes now.

    Attributes:
        key: the session.
        place: of its schedule among those that are due.
        time: the due time.
        content, config: of the turn.
    """

    key: SessionKey
    place: DuePlace
    time: ScheduledTime
    content: Content
    config: RunConfig = DEFAULT_RUN_CONFIG


class PassDueTime(Request[Ack], frozen=True, kw_only=True):
    """A due time makes no turn, or has made it: the schedule goes on to the next. The reply is Ack.

    Attributes:
        error: why it makes none; "": it has made its turn.
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    time: ScheduledTime
    error: str = ""
