"""Usage and budgets of turns: driver to Session actor."""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages.operating.usage import UsageReport, UsedBudget
from actors.messages.protocol.base import Message
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.session import SessionKey


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

    def joined(self, replies: Sequence[UsageReply]) -> UsageReply:
        """The sums of all stores. Each of the turns that were asked for is in one of them."""
        reports = zip(*(reply.reports for reply in replies), strict=True)
        return UsageReply(
            report=UsageReport.joined([reply.report for reply in replies]), reports=list(map(UsageReport.joined, reports))
        )


class TurnBudgetsReply(Message, frozen=True, kw_only=True):
    """The limits of the budgets that bound a turn."""

    budgets: Sequence[UsedBudget] = ()


class GetTurnBudgets(Request[TurnBudgetsReply], frozen=True, kw_only=True):
    """Ask how far the budgets of a turn are used. The reply is TurnBudgetsReply; a turn that is over has none."""

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    invocation_id: str
