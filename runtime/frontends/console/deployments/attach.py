"""`raygrove attach`: shows a turn that another program has started."""

from __future__ import annotations

from typing import Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name, Session, User, Verbose
from runtime.frontends.console.options import Json

Turn = Annotated[str, typer.Argument(metavar="INVOCATION", help="The turn, as `raygrove turns` names it.", show_default=False)]


def attach(
    name: Name,
    session: Session,
    invocation: Turn,
    user: User = None,
    verbose: Verbose = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Join a turn, and print its answer as it comes. Ctrl-C leaves it, and cancels nothing.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn is paused and waits for a person, 130 Ctrl-C.
    """
    from runtime.frontends.console.deployments.outcomes import follow
    from runtime.frontends.console.joining import joined, user_of

    with joined(name, address) as rt:
        turn = rt.attach(user_id=user_of(rt, session, user), session_id=session, invocation_id=invocation)
        code = follow(turn, name, json=json, verbose=verbose)
    raise typer.Exit(code)
