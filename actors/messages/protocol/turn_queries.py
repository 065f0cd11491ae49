"""Turns and logs as data: driver to Session actor."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.llm.recorded import PackedCall, PackedPart
from actors.messages.operating.turn_description import LiveRun
from actors.messages.operating.usage import UsageReport, UsedBudget
from actors.messages.protocol.base import Message, StoredEvent
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.session import SessionKey
from actors.messages.turn_info import ANY_TURN, PendingCall, TurnInfo, TurnMatch


class TurnsReply(Message, frozen=True, kw_only=True):
    """The turns asked for.

    Attributes:
        next: where to ask on, as `before`, when so many turns did not fit that the rest was not looked at; else None.
    """

    turns: Sequence[TurnInfo] = ()
    next: tuple[float, str] | None = None


class ListTurns(Request[TurnsReply], frozen=True, kw_only=True):
    """List turns, those in line first, then the one that began last. The reply is TurnsReply.

    Attributes:
        user: of that user only; None: of all users.
        session: of that session of the user only; None: of all sessions.
        state: in that state only; "": in any.
        limit: at most so many.
        before: only turns after this one in the list, by its `begun_s` and invocation id: none in line.
        since_s: only turns that began at this time or later, in Unix seconds; and those in line.
        match: only turns that fit it.
    """

    route = Route.USER
    lane = Lane.QUERY

    app: str
    user: str | None = None
    session: str | None = None
    state: str = ""
    limit: int = 100
    before: tuple[float, str] | None = None
    since_s: float = 0.0
    match: TurnMatch = ANY_TURN


class TurnsCounted(Message, frozen=True, kw_only=True):
    """How many turns of an app have not ended.

    Attributes:
        in_line: they wait in line.
        continued: so many of them have begun before: they are paused, and an answer waits.
        running, paused: their record says so.
    """

    in_line: int
    continued: int
    running: int = 0
    paused: int = 0


class CountTurns(Request[TurnsCounted], frozen=True, kw_only=True):
    """Count the turns of an app that have not ended. The reply is TurnsCounted.

    Attributes:
        in_line_only: only those in line, which each Session actor knows of its own sessions.
    """

    route = Route.ACTOR
    lane = Lane.QUERY

    app: str
    in_line_only: bool = False


class GetTurn(Request[TurnsReply], frozen=True, kw_only=True):
    """Ask where a turn is. The reply is TurnsReply with that turn."""

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    invocation_id: str


class PendingReply(Message, frozen=True, kw_only=True):
    """The calls that wait.

    Attributes:
        begun_s: of each call when its turn began, where the calls of all of a user's sessions, or of all users, were asked for.
        next: where to ask on, as `before`; None when there are no more turns.
    """

    calls: Sequence[PendingCall] = ()
    begun_s: Sequence[float] = ()
    next: tuple[float, str] | None = None


class ListPending(Request[PendingReply], frozen=True, kw_only=True):
    """List the calls at which paused turns wait, those of the turn that began last first. The reply is PendingReply.

    Attributes:
        user, session: as in ListTurns.
        invocation_id: of that turn of the session only; "": of all.
        with_open: also the unanswered long-running calls of the session's open turn, which may answer themselves yet.
        limit: look at so many paused turns at most.
        before: as in ListTurns.
    """

    route = Route.USER
    lane = Lane.QUERY

    app: str
    user: str | None = None
    session: str | None = None
    invocation_id: str = ""
    with_open: bool = False
    limit: int = 100
    before: tuple[float, str] | None = None


class UsageReply(Message, frozen=True, kw_only=True):
    """What was used.

    Attributes:
        reports: of each of the turns that were named, in their order: of a turn that the store has not, nothing was used.
    """

    report: UsageReport
    reports: Sequence[UsageReport] = ()


class GetUsage(Request[UsageReply], frozen=True, kw_only=True):
    """Ask what turns have used. The reply is UsageReply.

    Attributes:
        user: of that user only; None: of all users.
        session: of that session of the user only; None: of all sessions.
        invocation_id: that turn of the session only; "": all of them.
        since_s: only turns that began at this time or later, in seconds since the epoch.
        by: what to list the sums by: "agent", "model", "user", "day", "version" or "turn"; "": nothing.
        turns: sessions and the ids of turns in them; if there are any, the reply has a report for each, and no other.
    """

    route = Route.USER
    lane = Lane.QUERY

    app: str
    user: str | None = None
    session: str | None = None
    invocation_id: str = ""
    since_s: float = 0.0
    by: str = ""
    turns: Sequence[tuple[SessionKey, str]] = ()


class TurnBudgetsReply(Message, frozen=True, kw_only=True):
    """The limits of the budgets that bound a turn."""

    budgets: Sequence[UsedBudget] = ()


class GetTurnBudgets(Request[TurnBudgetsReply], frozen=True, kw_only=True):
    """Ask how far the budgets of a turn are used. The reply is TurnBudgetsReply; a turn that is over has none."""

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    invocation_id: str


class LogPart(Message, frozen=True, kw_only=True):
    """Events in the order asked for. `more`: there are others within the positions."""

    events: Sequence[StoredEvent] = ()
    more: bool = False


class ReadLog(Request[LogPart], frozen=True, kw_only=True):
    """Ask for a part of a session's log. The reply is LogPart.

    Attributes:
        after_seq, before_seq: only events between these positions; None: to the newest.
        limit: at most so many; fewer come when they are large.
        newest_first: begin at the newest.
    """

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    after_seq: int = 0
    before_seq: int | None = None
    limit: int = 100
    newest_first: bool = False


class ModelCallsReply(Message, frozen=True, kw_only=True):
    """Records of model calls. `parts`: all of their requests that are there; `more`: there are further calls."""

    calls: Sequence[StoredCall] = ()
    parts: Sequence[PackedPart] = ()
    more: bool = False


class GetModelCalls(Request[ModelCallsReply], frozen=True, kw_only=True):
    """Ask for the recorded model calls of a turn, the one that began first first. The reply is ModelCallsReply.

    Attributes:
        after: only calls after this one, by its `begun_s` and its id.
        limit: at most so many.
    """

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    invocation_id: str
    after: tuple[float, str] | None = None
    limit: int = 100


class RunningTurnReply(Message, frozen=True, kw_only=True):
    """What goes on in a turn. One that does not run there has no runs.

    Attributes:
        runs: those under way, the oldest first.
    """

    runs: Sequence[LiveRun] = ()
    transfers: int = 0
    llm_calls: int = 0


class GetRunningTurn(Request[RunningTurnReply], frozen=True, kw_only=True):
    """Ask a Runner what goes on in a turn that it runs. The reply is RunningTurnReply."""

    route = Route.SESSION

    key: SessionKey
    invocation_id: str


class StoredCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The record of a model call, and the position of the event with which it was stored."""

    seq: int
    call: PackedCall
