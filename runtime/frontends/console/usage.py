"""`raygrove usage`: what the turns of a deployment have used, and what that costs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, cast

import typer

from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json, parsed_age
from runtime.frontends.console.watching import Watch, WatchedLine, follow

if TYPE_CHECKING:
    from actors.messages.operating.usage import UsageBy, UsageReport, UsageSums

User = Annotated[str | None, typer.Option(help="Only turns of this user.")]
Session = Annotated[str | None, typer.Option(help="Only turns of this session.")]
Turn = Annotated[str | None, typer.Option(help="Only this turn; with --session.")]
Since = Annotated[str | None, typer.Option(metavar="AGE", help="Only turns that began since then: 30d, 12h, 15m.")]
By = Annotated[
    str | None, typer.Option(help="List them by agent, model, user, day or version; or the turns that cost most: turn.")
]

_COLUMNS = ("CALLS", "TOOLS", "INPUT", "CACHED", "OUTPUT", "REASONING", "SECONDS")


def usage(
    name: Name,
    user: User = None,
    session: Session = None,
    turn: Turn = None,
    since: Since = None,
    by: By = None,
    watch: Watch = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Add up what turns have used: model calls, calls of tools, tokens, seconds, and money where models have prices."""
    from runtime.frontends.console.joining import joined, user_of
    from runtime.frontends.console.output import print_json, print_table

    since_s = time.time() - parsed_age(since) if since is not None else None
    with joined(name, address) as rt:
        user = user_of(rt, session, user) if session is not None else user

        def look() -> UsageReport:
            return rt.usage(user, session, turn, since=since_s, by=cast("UsageBy | None", by))

        report = look()
        if watch:
            follow(_columns(report, by), lambda: _lines(look(), by), json=json)
            return
    if json:
        print_json([report])
        return
    print_table(_columns(report, by), [line.cells for line in _lines(report, by)])
    if report.currency and report.unpriced:
        print(f"without a price: {', '.join(each or 'a model without a name' for each in report.unpriced)}")


def _lines(report: UsageReport, by: str | None) -> list[WatchedLine]:
    name = by or "of"
    return [
        WatchedLine(named, cells := _row(named, sums, with_money=bool(report.currency)), cells, {name: named, "sums": sums})
        for named, sums in _named(report)
    ]


def _columns(report: UsageReport, by: str | None) -> tuple[str, ...]:
    return ((by or "").upper(), *_COLUMNS, *((report.currency,) if report.currency else ()))


def _named(report: UsageReport) -> list[tuple[str, UsageSums]]:
    turns = ((f"{each.user_id} {each.session_id} {each.invocation_id}", each.sums) for each in report.turns)
    return [*((name or "-", sums) for name, sums in report.groups.items()), *turns, ("all", report.total)]


def _row(name: str, sums: UsageSums, *, with_money: bool) -> tuple[str, ...]:
    counts = (sums.llm_calls, sums.tool_calls, sums.input_tokens, sums.cached_tokens, sums.output_tokens, sums.reasoning_tokens)
    money = ("-" if sums.money is None else f"{sums.money:.4f}",) if with_money else ()
    return (name, *map(str, counts), f"{sums.seconds:.1f}", *money)
