"""`raygrove describe`: a turn, with all that is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name, Session, User
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime

Chosen = Annotated[str | None, typer.Argument(metavar="INVOCATION", help="The turn; by default the session's newest.")]
Requests = Annotated[bool, typer.Option("--requests", help="Print what models were asked, as far as it was recorded.")]


def describe(
    name: Name,
    session: Session,
    invocation: Chosen = None,
    requests: Requests = False,
    user: User = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Print what a turn does, what it waits for, and what it has done; with --requests also what models were asked in it."""
    import msgspec

    from runtime.frontends.console.apps.terminal import Terminal
    from runtime.frontends.console.joining import joined, user_of
    from runtime.frontends.console.observing.turn_lines import turn_lines
    from runtime.frontends.console.output import print_json
    from runtime.frontends.console.request_lines import requests_lines

    with joined(name, address) as rt:
        owner = user_of(rt, session, user)
        turn = rt.turns.describe(owner, session, invocation or _newest(rt, owner, session))
        calls = rt.turns.requests(owner, session, turn.turn.invocation_id) if requests else []
    if json:
        print_json([msgspec.to_builtins(turn) | ({"requests": msgspec.to_builtins(calls)} if requests else {})])
        return
    terminal = Terminal()
    for line in turn_lines(turn):
        terminal.write(line)
    for line in requests_lines(calls) if requests else ():
        terminal.write(line)


def _newest(rt: Runtime, user: str, session: str) -> str:
    """The newest turn of a session: one that runs before those in line. Raises RequestError when it has none."""
    from actors.errors import RequestError
    from runtime.driver.turns.finding import LOOKED_AT, newest_of_session

    for state in ("running", None):
        if (newest := newest_of_session(rt.turns.list(user, session, state, LOOKED_AT))) is not None:
            return newest.invocation_id
    raise RequestError(f"session {session!r} has no turn yet")
