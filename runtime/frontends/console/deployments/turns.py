"""`raygrove turns`: the turns of a deployment, and what they wait for."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.bulk.options import OfAgent, OfVersion, OlderThan, Since, WithError, WithId, WithText
from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json
from runtime.frontends.console.watching import Watch, follow

if TYPE_CHECKING:
    from actors.layers.listing.messages import PendingCall

ALL, OPEN = "all", "open"

State = Annotated[str, typer.Option(help="open, all, waiting, running, paused, finished, failed or cancelled.")]
User = Annotated[str | None, typer.Option(help="Only turns of this user.")]
Session = Annotated[str | None, typer.Option(help="Only turns of this session.")]
Usage = Annotated[bool, typer.Option("--usage", help="Also what each turn has used: model calls, tokens, and money.")]
Limit = Annotated[int, typer.Option(help="How many turns at most.", min=1)]


def turns(
    name: Name,
    state: State = OPEN,
    user: User = None,
    session: Session = None,
    agent: OfAgent = None,
    error: WithError = None,
    text: WithText = None,
    with_id: WithId = None,
    since: Since = None,
    older_than: OlderThan = None,
    version: OfVersion = None,
    limit: Limit = 100,
    usage: Usage = False,
    watch: Watch = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """List the turns of a deployment, by default those that have not ended."""
    import msgspec

    from actors.errors import RequestError
    from runtime.driver.turns import bulk
    from runtime.frontends.console import joining
    from runtime.frontends.console.apps.questions import question
    from runtime.frontends.console.apps.terminal import Terminal
    from runtime.frontends.console.bulk.choice import turn_query, turns_in
    from runtime.frontends.console.bulk.rows import TURN_COLUMNS, USAGE_COLUMNS, turn_row, used_row
    from runtime.frontends.console.bulk.watching import WIDTHS, TurnWatch
    from runtime.frontends.console.output import is_terminal, print_json, print_table

    states = {ALL: (None,), OPEN: bulk.OPEN}.get(state, (state,))
    with joining.joined(name, address) as rt:
        user = joining.user_of(rt, session, user) if session is not None else user
        which = turn_query(user, session, agent, error, with_id, since, older_than, version, text)
        if watch and usage:
            raise RequestError("--usage is for a list that is printed once: give it without --watch")
        if watch:
            follow(TURN_COLUMNS, TurnWatch(rt, lambda: turns_in(rt, which, states, limit)).lines, json=json, widths=WIDTHS)
            return
        found = turns_in(rt, which, states, limit)
        paused = any(turn.state == "paused" for turn in found)
        used = rt.usages(found) if usage else []
        pending = rt.turns.pending(user, session, joining.MANY) if paused else []
    waits: dict[str, list[PendingCall]] = {}
    for call in pending:
        waits.setdefault(call.invocation_id, []).append(call)
    if json:
        print_json(
            msgspec.to_builtins(turn)
            | {"pending": msgspec.to_builtins(waits.get(turn.invocation_id, []))}
            | ({"usage": msgspec.to_builtins(report)} if report is not None else {})
            for turn, report in zip_longest(found, used)
        )
        return
    columns = (*TURN_COLUMNS, *(USAGE_COLUMNS if usage else ()))
    rows = [
        (*turn_row(turn, waits.get(turn.invocation_id, ())), *(used_row(report) if report is not None else ()))
        for turn, report in zip_longest(found, used)
    ]
    notes = [
        turn.error or "; ".join(f"{call.call_id} {question(call)}" for call in waits.get(turn.invocation_id, ()))
        for turn in found
    ]
    if not is_terminal():
        print_table((*columns, "NOTE"), [(*row, note) for row, note in zip(rows, notes, strict=True)])
        return
    print_table(columns, rows)
    # Below the table: ids and errors leave no room for them in a line of 80 characters.
    for turn, note in zip(found, notes, strict=True):
        if note:
            Terminal().write(f"{turn.session_id} {'waits for' if turn.state == 'paused' else turn.state}: {note}")
