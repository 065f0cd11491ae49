"""`raygrove retry`: runs a failed turn on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name, Session, User, Verbose
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime

Failed = Annotated[
    str | None, typer.Argument(metavar="INVOCATION", help="The turn; by default the one of the session that has failed last.")
]


def retry(
    name: Name,
    session: Session,
    invocation: Failed = None,
    user: User = None,
    verbose: Verbose = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Run a failed turn on from its last stored step, and print how it goes on. Ctrl-C leaves it, and cancels nothing.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn waits, 130 Ctrl-C.
    """
    from runtime.frontends.console.deployments.outcomes import follow
    from runtime.frontends.console.joining import joined, user_of

    with joined(name, address) as rt:
        owner = user_of(rt, session, user)
        chosen = invocation or _last_failed(rt, owner, session)
        turn = rt.retry(user_id=owner, session_id=session, invocation_id=chosen, on_leave="continue")
        code = follow(turn, name, json=json, verbose=verbose)
    raise typer.Exit(code)


def _last_failed(rt: Runtime, user: str, session: str) -> str:
    """The turn of a session that has failed last. Raises RequestError when none has."""
    from actors.errors import RequestError

    failed = rt.turns.list(user, session, state="failed", limit=1)
    if not failed:
        raise RequestError(f"no turn of session {session!r} has failed: there is nothing to retry")
    return failed[0].invocation_id
