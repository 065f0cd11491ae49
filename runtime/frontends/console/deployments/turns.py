"""`raygrove turns`: the turns of a deployment, and what they wait for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.messages.turn_info import PendingCall, TurnInfo

ALL, OPEN = "all", "open"

State = Annotated[str, typer.Option(help="open, all, waiting, running, paused, finished, failed or cancelled.")]
User = Annotated[str | None, typer.Option(help="Only turns of this user.")]
Session = Annotated[str | None, typer.Option(help="Only turns of this session; with --user.")]
Limit = Annotated[int, typer.Option(help="How many turns at most.", min=1)]


def turns(
    name: Name,
    state: State = OPEN,
    user: User = None,
    session: Session = None,
    limit: Limit = 100,
    address: Address = None,
    json: Json = False,
) -> None:
    """List the turns of a deployment, by default those that have not ended."""
    import msgspec

    from runtime.frontends.console import joining
    from runtime.frontends.console.apps.questions import question
    from runtime.frontends.console.apps.terminal import Terminal
    from runtime.frontends.console.output import duration, is_terminal, print_json, print_table

    states = {ALL: (None,), OPEN: joining.OPEN}.get(state, (state,))
    with joining.joined(name, address) as rt:
        found = [turn for each in states for turn in rt.turns.list(user, session, each, limit)][:limit]
        paused = any(turn.state == "paused" for turn in found)
        pending = rt.turns.pending(user, session, joining.MANY) if paused else []
    waits: dict[str, list[PendingCall]] = {}
    for call in pending:
        waits.setdefault(call.invocation_id, []).append(call)
    if json:
        print_json(
            msgspec.to_builtins(turn) | {"pending": msgspec.to_builtins(waits.get(turn.invocation_id, []))} for turn in found
        )
        return
    rows = [(turn.invocation_id, turn.session_id, turn.user_id, turn.agent, turn.state, duration(_age(turn))) for turn in found]
    notes = [
        turn.error or "; ".join(f"{call.call_id} {question(call)}" for call in waits.get(turn.invocation_id, ()))
        for turn in found
    ]
    columns = ("INVOCATION", "SESSION", "USER", "AGENT", "STATE", "AGE")
    if not is_terminal():
        print_table((*columns, "NOTE"), [(*row, note) for row, note in zip(rows, notes, strict=True)])
        return
    print_table(columns, rows)
    # Below the table: ids and errors leave no room for them in a line of 80 characters.
    for turn, note in zip(found, notes, strict=True):
        if note:
            Terminal().write(f"{turn.session_id} {'waits for' if turn.state == 'paused' else turn.state}: {note}")


def _age(turn: TurnInfo) -> float:
    """The time since it began, or paused, or that it took."""
    if turn.state == "waiting":
        return 0.0
    if turn.state in ("running", "paused"):
        return time.time() - (turn.ended_s or turn.begun_s)
    return turn.ended_s - turn.begun_s
