"""Usage and budgets of turns: agents and drivers to Session actor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, get_args

import msgspec

from actors.errors.hints import CheckedStruct
from actors.messages.costs import BudgetWarning
from actors.messages.json_types import JsonObject
from actors.messages.protocol.base import Lane, Message, Request, Route, TurnRef
from actors.messages.session import SessionKey
from actors.messages.shown import Shown

UsageBy = Literal["agent", "model", "user", "day", "version", "turn"]
USAGE_BY: tuple[str, ...] = get_args(UsageBy)
"""What usage can be listed by."""

MOST_TURNS = 100
"""Turns that a report by turn lists."""


class UsageSums(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Sums over model calls and tool calls.

    Attributes:
        llm_calls: model calls that were answered.
        tool_calls: calls that models made of tools, agents as tools and transfers among them.
        input_tokens: what models were given, cached tokens and results of their services' own tools included.
        cached_tokens: so many of `input_tokens` came from a cache.
        output_tokens: what models answered, without `reasoning_tokens`.
        reasoning_tokens: what models thought before they answered.
        seconds: how long model calls and tools took, added up also where they ran at the same time.
        money: what the tokens of models with a price cost, in the currency of the prices; None where no model has one.
    """

    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    seconds: float = 0.0
    money: float | None = None

    @property
    def tokens(self) -> int:
        """All tokens: input, output and reasoning."""
        return self.input_tokens + self.output_tokens + self.reasoning_tokens


class UsedTurn(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What one turn has used.

    Attributes:
        user_id, session_id, invocation_id: name the turn.
        begun_s: when it began, in seconds since the epoch.
        sums: what it has used.
    """

    user_id: str
    session_id: str
    invocation_id: str
    begun_s: float
    sums: UsageSums


class UsageReport(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was used, in all and by name.

    Attributes:
        total: the sums of everything that was asked for.
        groups: the sums by agent, model, user, day or version, as was asked for, in the order of their names.
            The model "" stands for what was done without a model, such as tools.
        turns: if they were asked for, the hundred turns that cost most money, those without a price after them by their tokens.
        currency: of `money`; "" where no model has a price.
        unpriced: models that have used tokens and have no price: `money` is without theirs.
    """

    total: UsageSums = UsageSums()
    groups: dict[str, UsageSums] = {}
    turns: Sequence[UsedTurn] = ()
    currency: str = ""
    unpriced: Sequence[str] = ()

    @classmethod
    def joined(cls, reports: Sequence[Self]) -> Self:
        """One report of what several stores have, each without the turns of the others."""
        names = sorted({name for report in reports for name in report.groups})
        turns = [turn for report in reports for turn in report.turns]
        turns.sort(
            key=lambda turn: (-(turn.sums.money or 0.0), -turn.sums.tokens, turn.user_id, turn.session_id, turn.invocation_id)
        )
        return cls(
            total=_together([report.total for report in reports]),
            groups={name: _together([report.groups[name] for report in reports if name in report.groups]) for name in names},
            turns=turns[:MOST_TURNS],
            currency=next((report.currency for report in reports if report.currency), ""),
            unpriced=sorted({model for report in reports for model in report.unpriced}),
        )


def _together(sums: Sequence[UsageSums]) -> UsageSums:
    counted = {field: sum(getattr(each, field) for each in sums) for field in UsageSums.__struct_fields__ if field != "money"}
    priced = [each.money for each in sums if each.money is not None]
    return UsageSums(**counted, money=sum(priced) if priced else None)


class UsageReply(Message, frozen=True, kw_only=True):
    """What was used.

    Attributes:
        reports: of each of the turns that were named, in their order: of a turn that the store has not, nothing was used.
    """

    report: UsageReport
    reports: Sequence[UsageReport] = ()


class GetUsage(Request[UsageReply], frozen=True, kw_only=True):
    """Ask what turns have used.

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


class UsedBudget(Shown, CheckedStruct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How far one limit of a budget is used.

    Attributes:
        whose: whose budget it is, in words, such as "user 'ada' today".
        field: the field of Budget that is the limit.
        limit: that field, with what was given besides.
        used: how much of it is used, without what is under way.
        at_limit: what happens to a call for which there is no room: see Budget.
        model: the name of the model that is called instead; "": none is.
    """

    whose: str
    field: str
    limit: float
    used: float
    at_limit: str = "stop"
    model: str = ""


class TurnBudgetsReply(Message, frozen=True, kw_only=True):
    """The limits of the budgets that bound a turn."""

    budgets: Sequence[UsedBudget] = ()


class GetTurnBudgets(Request[TurnBudgetsReply], frozen=True, kw_only=True):
    """Ask how far the budgets of a turn are used. The reply is TurnBudgetsReply; a turn that is over has none."""

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    invocation_id: str


class MaySpend(Message, frozen=True, kw_only=True):
    """What was asked for may be done.

    Attributes:
        model: the model that is to be called instead; "": the one that was asked for.
        end: what the model is to be told, since this is the agent's last call; of tools, what they answer without being run.
        warnings: of budgets of which most is used; each comes once.
    """

    model: str = ""
    end: str = ""
    warnings: Sequence[BudgetWarning] = ()


class AskForMore(Message, frozen=True, kw_only=True):
    """A budget has no room, and the user is to be asked for more.

    Attributes:
        scope: of the budget.
        facts: what the user is shown.
        warnings: see MaySpend.
    """

    scope: str
    facts: JsonObject
    warnings: Sequence[BudgetWarning] = ()


class DoWithout(Message, frozen=True, kw_only=True):
    """A budget has no room for an optional call, which is not made.

    Attributes:
        whose: whose budget it is, in words.
        warnings: see MaySpend.
    """

    whose: str
    warnings: Sequence[BudgetWarning] = ()


class ReserveSpending(Request[MaySpend | AskForMore | DoWithout], frozen=True, kw_only=True):
    """Ask whether the turn's budgets have room for a model call, or for calls of tools.

    What the model call is likely to take is reserved until the run appends. The reply is MaySpend or AskForMore; for an optional
    call it is MaySpend or DoWithout.

    Attributes:
        model: the one that the run is about to call; "": tools are about to be run.
        input_tokens: about how many the request has.
        tool_calls: so many of the calls are not in the log yet.
        is_optional: the run can do without the model call.
    """

    route = Route.SESSION
    lane = Lane.GO_ON

    turn: TurnRef
    agent: str
    branch: str | None = None
    model: str = ""
    input_tokens: int = 0
    tool_calls: int = 0
    is_optional: bool = False
