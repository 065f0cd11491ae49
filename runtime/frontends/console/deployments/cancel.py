"""`raygrove cancel`: stops a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Invocation, Name, Session, User
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.messages.turn_info import TurnInfo
    from runtime.driver.runtime import Runtime

All = Annotated[bool, typer.Option("--all", help="All turns of the session that have not ended.")]


def cancel(
    name: Name,
    session: Session,
    invocation: Invocation = None,
    all_: All = False,
    user: User = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Cancel a turn, and wait until its log is sealed: calls without an answer get one."""
    from actors.errors import RequestError
    from runtime.frontends.console.joining import joined, user_of
    from runtime.frontends.console.output import print_json

    if all_ and invocation is not None:
        raise RequestError("give one turn, or --all of the session, and not both")
    with joined(name, address) as rt:
        turns = _chosen(rt, user_of(rt, session, user), session, invocation, all_=all_)
        for turn in turns:
            sealed = _cancel(rt, turn)
            if json:
                print_json([{"invocationId": turn.invocation_id, "state": "cancelled", "sealedCalls": sealed}])
            else:
                calls = "1 call" if sealed == 1 else f"{sealed} calls"
                print(f"{turn.invocation_id} is cancelled; sealed: {calls} answered " + '{"error": "cancelled"}', flush=True)


def _chosen(rt: Runtime, user: str, session: str, invocation: str | None, *, all_: bool) -> list[TurnInfo]:
    """The turns to cancel. Raises RequestError when that is not clear, or there is none."""
    from actors.errors import RequestError
    from runtime.frontends.console.joining import OPEN, open_turns

    if invocation is not None:
        turn = rt.turns.get(user, session, invocation)
        if turn.state not in OPEN:
            raise RequestError(f"turn {invocation!r} has ended already: it is {turn.state}")
        return [turn]
    found = open_turns(rt, user, session)
    if not found:
        raise RequestError(f"no turn of session {session!r} is open: nothing is cancelled")
    if len(found) > 1 and not all_:
        named = ", ".join(f"{turn.invocation_id} ({turn.state})" for turn in found[:5])
        raise RequestError(f"session {session!r} has {len(found)} open turns: name one of {named}, or give --all")
    return found


def _cancel(rt: Runtime, turn: TurnInfo) -> int:
    """Cancel a turn. Returns how many calls got an answer by that."""
    user, session = turn.user_id, turn.session_id
    head = max((event.seq for event in rt.sessions.events(user, session, limit=1, newest_first=True)), default=0)
    rt.attach(user_id=user, session_id=session, invocation_id=turn.invocation_id, after_seq=head).cancel()
    return sum(
        response.response == {"error": "cancelled"}
        for event in rt.sessions.events(user, session, after_seq=head)
        if event.invocation_id == turn.invocation_id
        for response in event.function_responses()
    )
