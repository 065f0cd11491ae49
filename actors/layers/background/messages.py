"""The messages about background runs: agents and drivers to the Session actor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from actors.messages.config import DEFAULT_BACKGROUND, DEFAULT_RUN_CONFIG, Background, RunConfig
from actors.messages.content import Content
from actors.messages.protocol.base import Ack, Lane, Message, Request, Route
from actors.messages.session import SessionKey
from actors.messages.turn_info import BackgroundRun

Wanted = Literal["any", "all"]


class RunsReply(Message, frozen=True, kw_only=True):
    """Background runs, in the order in which they were started."""

    runs: Sequence[BackgroundRun] = ()


class StartRun(Request[RunsReply], frozen=True, kw_only=True):
    """Start a background run. The reply has it. Sent again, it changes nothing.

    Attributes:
        key: the session in which it is started.
        invocation_id: the turn that starts it, which has to be open.
        run: its id: 16 hexadecimal digits.
        agent, started_by: the agent that runs, and the one that has started it.
        config: the options of the turn that starts it, whose limits it has.
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    invocation_id: str
    run: str
    agent: str
    started_by: str
    content: Content
    options: Background = DEFAULT_BACKGROUND
    config: RunConfig = DEFAULT_RUN_CONFIG


class FindRuns(Request[RunsReply], frozen=True, kw_only=True):
    """List the background runs that were started in a session, or wait until some have ended.

    Attributes:
        runs: their ids; empty: all.
        wanted: wait until one of them, or each, has ended; "": do not wait.
        timeout_s: for so long.
        heard_by: the turn whose agent takes note of the end of those that have ended: no message says it any more, if the turn is
            still open then. "": none does.
    """

    route = Route.SESSION
    lane = Lane.DIRECT

    key: SessionKey
    runs: Sequence[str] = ()
    wanted: Wanted | Literal[""] = ""
    timeout_s: float = 0.0
    heard_by: str = ""


class SteerRun(Request[RunsReply], frozen=True, kw_only=True):
    """Leave a message for a run. The reply has the run. Sent again, it changes nothing.

    Attributes:
        key: the session in which it was started.
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    run: str
    id: str
    content: Content


class CancelRun(Request[RunsReply], frozen=True, kw_only=True):
    """Have a run cancelled, and those that it has started. The reply has the run, which may still run."""

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    run: str


class AskParent(Request[Ack], frozen=True, kw_only=True):
    """Leave a question of a background run for the agent that has started it. Sent again, it changes nothing.

    Attributes:
        id: of the turn that the question begins if it is not read.
    """

    route = Route.SESSION
    lane = Lane.GO_ON

    key: SessionKey
    id: str
    question: str
