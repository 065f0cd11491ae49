"""`raygrove usage`: what the turns of a deployment have used, and what that costs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, cast

import typer

from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json, parsed_age

if TYPE_CHECKING:
    from actors.messages.operating.usage import UsageBy, UsageReport, UsageSums

User = Annotated[str | None, typer.Option(help="Only turns of this user.")]
Session = Annotated[str | None, typer.Option(help="Only turns of this session; with --user.")]
Turn = Annotated[str | None, typer.Option(help="Only this turn; with --user and --session.")]
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
    address: Address = None,
    json: Json = False,
) -> None:
    """Add up what turns have used: model calls, calls of tools, tokens, seconds, and money where models have prices."""
    from runtime.frontends.console.joining import joined
    from runtime.frontends.console.output import print_json, print_table

    since_s = time.time() - parsed_age(since) if since is not None else None
    with joined(name, address) as rt:
        report = rt.usage(user, session, turn, since=since_s, by=cast("UsageBy | None", by))
    if json:
        print_json([report])
        return
    print_table(*_table(report, by))
    if report.currency and report.unpriced:
        print(f"without a price: {', '.join(each or 'a model without a name' for each in report.unpriced)}")


def _table(report: UsageReport, by: str | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    money = (report.currency,) if report.currency else ()
    named = [
        *report.groups.items(),
        *((f"{each.user_id} {each.session_id} {each.invocation_id}", each.sums) for each in report.turns),
    ]
    rows = [_row(name or "-", sums, with_money=bool(money)) for name, sums in named]
    return ((by or "").upper(), *_COLUMNS, *money), [*rows, _row("all", report.total, with_money=bool(money))]


def _row(name: str, sums: UsageSums, *, with_money: bool) -> tuple[str, ...]:
    counts = (sums.llm_calls, sums.tool_calls, sums.input_tokens, sums.cached_tokens, sums.output_tokens, sums.reasoning_tokens)
    money = ("-" if sums.money is None else f"{sums.money:.4f}",) if with_money else ()
    return (name, *map(str, counts), f"{sums.seconds:.1f}", *money)
