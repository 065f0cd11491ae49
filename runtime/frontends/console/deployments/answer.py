"""`raygrove answer`: answers a call at which a turn waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from runtime.frontends.console.deployments.options import Address, Name, Session, User, Verbose
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.messages.turn_info import PendingCall

YES, NO = ("yes", "y", "true"), ("no", "n", "false")

CallId = Annotated[str, typer.Argument(metavar="CALL_ID", help="The call, as `raygrove turns` names it.", show_default=False)]
Value = Annotated[
    str, typer.Argument(metavar="VALUE", help="yes or no for a confirmation, else the result, as JSON.", show_default=False)
]


def answer(
    name: Name,
    session: Session,
    call_id: CallId,
    value: Value,
    user: User = None,
    verbose: Verbose = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Answer a call at which a turn is paused, and print how the turn goes on. Ctrl-C leaves it, and cancels nothing.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn waits again, 130 Ctrl-C.
    """
    from actors.errors import RequestError
    from actors.messages.config import RunConfig
    from runtime.frontends.console.deployments.outcomes import follow
    from runtime.frontends.console.joining import joined, user_of

    with joined(name, address) as rt:
        pending = rt.pending(user_id=user_of(rt, session, user), session_id=session)
        call = next((each for each in pending if each.call_id == call_id), None)
        if call is None:
            known = ", ".join(f"{each.call_id} ({each.name})" for each in pending) or "none"
            raise RequestError(f"call {call_id!r} waits for no answer in session {session!r}. Calls that wait: {known}")
        config = RunConfig(streaming="none" if json else "sse")
        turn = rt.answer(
            {call_id: _given(call, value)}, user_id=call.user_id, session_id=session, run_config=config, on_leave="continue"
        )
        code = follow(turn, name, json=json, verbose=verbose)
    raise typer.Exit(code)


def _given(call: PendingCall, value: str) -> Any:
    """The answer that a word means. Raises RequestError."""
    from actors.errors import RequestError
    from runtime.frontends.console.apps.options import from_json

    if not call.is_confirmation:
        return from_json(value, f"the result of {call.name}")
    if value.lower() in (*YES, *NO):
        return value.lower() in YES
    if value.lstrip().startswith("{"):
        return from_json(value, f"the answer to {call.name}")
    raise RequestError(f"{call.name} of agent {call.agent!r} must be confirmed: answer yes or no, not {value!r}")
