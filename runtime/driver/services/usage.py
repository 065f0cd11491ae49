"""What was used: `rt.usage` and `rt.aio.usage`, `raygrove usage`, and `/v1/apps/{app}/usage`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from actors.errors import RequestError
from actors.layers.spending.messages import USAGE_BY, GetUsage, UsageBy, UsageReport, UsageSums
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from actors.rules.checks.ids import checked_id
from runtime.driver.arguments import checked_choice, checked_time
from runtime.driver.inputs import MAX_NUMBER, Id
from runtime.driver.operation import AppOperation, Command, Option, Table, TableLine, ago
from runtime.driver.waits import Awaited, M, RuntimeService, waits

AT_ONCE = 100
"""Turns of one request."""


class UsageMethods(RuntimeService[M]):
    """What was used, as a part of a Runtime and of its `aio`."""

    @waits
    async def usage(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        invocation_id: str | None = None,
        *,
        since: float | datetime | None = None,
        by: UsageBy | None = None,
    ) -> UsageReport:
        """Add up what turns have used: tokens, model calls, tool calls, seconds, and money where models have a price.

        Agents of all kinds count, and turns that failed, were rewound or still run: they are paid for. What was deleted does not.

        Args:
            user_id: of that user only; None: of all users of the app.
            session_id: of that session of the user only.
            invocation_id: that turn of the session only.
            since: only turns that began then or later: a datetime, or seconds since the epoch.
            by: "agent", "model", "user", "day" (by UTC, when the turn began) or "version" (of the tree: see `update`): the report
                has the sums of each in `groups`; or "turn": it has the turns that cost most in `turns`.

        Raises:
            RequestError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        if session_id is not None and user_id is None:
            raise RequestError("session_id names a session of a user: give user_id, too")
        if invocation_id is not None and session_id is None:
            raise RequestError("invocation_id names a turn of a session: give user_id and session_id, too")
        since_s = since.timestamp() if isinstance(since, datetime) else since
        reply = await self._client.session.ask(
            GetUsage(
                app=self._client.app_name,
                user=checked_id("user id", user_id) if user_id is not None else None,
                session=checked_id("session id", session_id) if session_id is not None else None,
                invocation_id=checked_id("invocation id", invocation_id) if invocation_id is not None else "",
                since_s=checked_time("since", since_s) if since_s is not None else 0.0,
                by=checked_choice("by", by, USAGE_BY) if by is not None else "",
            )
        )
        return reply.report

    @waits
    async def usages(self, turns: Iterable[TurnInfo]) -> Sequence[UsageReport]:
        """Tell what each of these turns has used, in their order: as `usage` of each does, with a request for a hundred of them.

        Args:
            turns: as `rt.turns.list` gives them.

        Raises:
            StoreError: the store cannot be read.
        """
        app, session = self._client.app_name, self._client.session
        named = [(SessionKey(app, turn.user_id, turn.session_id), turn.invocation_id) for turn in turns]
        found: list[UsageReport] = []
        for start in range(0, len(named), AT_ONCE):
            page = named[start : start + AT_ONCE]
            reports = (await session.ask(GetUsage(app=app, turns=page))).reports
            if len(reports) != len(page):
                # The deployment is of a release that knows no such requests.
                asked = (GetUsage(app=app, user=key.user, session=key.session, invocation_id=name) for key, name in page)
                reports = [(await session.ask(message)).report for message in asked]
            found += reports
        return found


class UsageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose usage, and by what it is listed; `turn` goes with `session`, `since` is in seconds since the epoch."""

    session: Annotated[Id | None, Option("Only turns of this session.")] = None
    turn: Annotated[Id | None, Option("Only this turn; with --session.")] = None
    since: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=MAX_NUMBER)] | None,
        Option("Only turns that began since then: 30d, 12h, 15m.", metavar="AGE", read=ago),
    ] = None
    by: Annotated[
        UsageBy | None, Option("List them by agent, model, user, day or version; or the turns that cost most: turn.")
    ] = None


async def get_usage(rt: UsageMethods[Awaited], query: UsageQuery, user_id: str | None) -> UsageReport:
    """Add up what the turns of a user have used, or with credentials for any user those of the whole app."""
    if query.turn is not None and query.session is None:
        raise RequestError("turn names a turn of a session: give session, too")
    return await rt.usage(user_id, query.session, query.turn, since=query.since, by=query.by)


def _table(report: UsageReport, query: UsageQuery) -> Table:
    named = [(name or "-", sums) for name, sums in report.groups.items()]
    named += [(f"{each.user_id} {each.session_id} {each.invocation_id}", each.sums) for each in report.turns]
    lines = [
        TableLine(_cells(name, sums, with_money=bool(report.currency)), {query.by or "of": name, "sums": sums})
        for name, sums in [*named, ("all", report.total)]
    ]
    columns = [(query.by or "").upper(), "CALLS", "TOOLS", "INPUT", "CACHED", "OUTPUT", "REASONING", "SECONDS"]
    if not report.currency:
        return Table(columns, lines, report)
    unpriced = ", ".join(each or "a model without a name" for each in report.unpriced)
    return Table([*columns, report.currency], lines, report, f"without a price: {unpriced}" if unpriced else "")


def _cells(name: str, sums: UsageSums, *, with_money: bool) -> list[str]:
    counts = (sums.llm_calls, sums.tool_calls, sums.input_tokens, sums.cached_tokens, sums.output_tokens, sums.reasoning_tokens)
    money = ["-" if sums.money is None else f"{sums.money:.4f}"] if with_money else []
    return [name, *map(str, counts), f"{sums.seconds:.1f}", *money]


OPERATIONS = [
    AppOperation(
        "GET /v1/apps/{app}/usage",
        get_usage,
        for_admins=False,
        command=Command(
            name="usage",
            help="Add up what turns have used: model calls, calls of tools, tokens, seconds, and money where models have prices.",
            user_help="Only turns of this user.",
            show=_table,
            watched=True,
        ),
    )
]
"""What may be asked about usage."""
