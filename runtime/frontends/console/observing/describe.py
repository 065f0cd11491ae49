"""`raygrove describe`: a turn, with all that is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name, Session, User
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime

Chosen = Annotated[str | None, typer.Argument(metavar="INVOCATION", help="The turn; by default the session's newest.")]
Requests = Annotated[bool, typer.Option("--requests", help="Print what models were asked, where it was recorded.")]


def describe(
    name: Name,
    session: Session,
    invocation: Chosen = None,
    requests: Requests = False,
    user: User = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Print all that is known of a turn, and with --requests what models were asked in it."""
    import msgspec

    from runtime.frontends.console.apps.questions import question
    from runtime.frontends.console.joining import joined, user_of
    from runtime.frontends.console.observing.request_lines import request_lines
    from runtime.frontends.console.output import duration, local_time, print_json

    with joined(name, address) as rt:
        owner = user_of(rt, session, user)
        turn = rt.turns.get(owner, session, invocation or _newest(rt, owner, session))
        pending = [call for call in rt.turns.pending(owner, session) if call.invocation_id == turn.invocation_id]
        calls = rt.turns.requests(owner, session, turn.invocation_id) if requests else []
    if json:
        told = {"turn": turn, "pending": pending} | ({"requests": calls} if requests else {})
        print_json([msgspec.to_builtins(told)])
        return
    print(f"turn {turn.invocation_id} of session {session!r} of user {owner!r}: {turn.state}")
    print(f"agent: {turn.agent or '-'}")
    if turn.begun_s:
        print(f"began: {local_time(turn.begun_s)}")
    if turn.ended_s:
        print(f"ended: {local_time(turn.ended_s)}, after {duration(turn.ended_s - turn.begun_s)}")
    if turn.error:
        print(f"error: {turn.error}")
    for call in pending:
        print(f"waits for: {call.call_id} {question(call)}")
    for number, recorded in enumerate(calls, 1):
        print("\n".join(request_lines(number, recorded)))
    if requests and not calls:
        print("no model call of it was recorded: RAYGROVE_RECORD_REQUESTS was off, or did not choose it, or it is too long ago")


def _newest(rt: Runtime, user: str, session: str) -> str:
    """The newest turn of a session. Raises RequestError when it has none."""
    from actors.errors import RequestError

    found = rt.turns.list(user, session, limit=1)
    if not found:
        raise RequestError(f"session {session!r} has no turn yet")
    return found[0].invocation_id
