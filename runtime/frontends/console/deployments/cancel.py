"""`raygrove cancel`: stops a turn, or all turns that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.bulk.options import DryRun, OfAgent, OfVersion, OlderThan, Since, WithError, WithId, WithText, Yes
from runtime.frontends.console.deployments.options import Address, Invocation, Name, SomeSession, User
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.messages.turn_info import TurnInfo
    from runtime.driver.runtime import Runtime
    from runtime.driver.turns.bulk import BulkStep
    from runtime.frontends.console.bulk.acting import Action

All = Annotated[bool, typer.Option("--all", help="All turns that have not ended and fit: of the session, or of the deployment.")]
State = Annotated[str | None, typer.Option(help="With --all: only those waiting, running or paused.")]


def cancel(
    name: Name,
    session: SomeSession = None,
    invocation: Invocation = None,
    all_: All = False,
    state: State = None,
    user: User = None,
    agent: OfAgent = None,
    error: WithError = None,
    text: WithText = None,
    with_id: WithId = None,
    since: Since = None,
    older_than: OlderThan = None,
    version: OfVersion = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Cancel a turn, and wait until its log is sealed: calls without an answer get one. With --all every turn that fits.

    Without a session --all asks before it begins. After an interruption the same command goes on with the rest.
    """
    import msgspec

    from actors.errors import RequestError
    from runtime.driver.turns.bulk import OPEN
    from runtime.frontends.console.bulk.acting import act
    from runtime.frontends.console.bulk.choice import turn_query
    from runtime.frontends.console.joining import joined, user_of

    filters = (state, agent, error, text, with_id, since, older_than, version)
    if all_ and invocation is not None:
        raise RequestError("give one turn, or --all of the session, and not both")
    if not all_ and (session is None or dry_run or any(each is not None for each in filters)):
        raise RequestError("name a session, or give --all, with options that say which turns")
    if state is not None and state not in OPEN:
        raise RequestError(f"state must be one of {', '.join(OPEN)}, not {state!r}: others have ended")
    with joined(name, address) as rt:
        owner = user_of(rt, session, user) if session is not None else user
        which = turn_query(owner, session, agent, error, with_id, since, older_than, version, text)
        if invocation is not None:
            turns = [_open_turn(rt, owner or "", session or "", invocation)]
        else:
            turns = rt.turns.cancel_all(msgspec.structs.replace(which, state=state), dry_run=True).done
        if len(turns) > 1 and not all_:
            named = ", ".join(f"{turn.invocation_id} ({turn.state})" for turn in turns[:5])
            raise RequestError(f"session {session!r} has {len(turns)} open turns: name one of {named}, or give --all")
        if session is not None and not turns:
            raise RequestError(f"no turn of session {session!r} is open: nothing is cancelled")
        code = act(_action(rt), turns, dry_run=dry_run, yes=yes or session is not None, json=json)
    raise typer.Exit(code)


def _open_turn(rt: Runtime, user: str, session: str, invocation: str) -> TurnInfo:
    """The turn to cancel. Raises RequestError when it has ended."""
    from actors.errors import RequestError
    from runtime.driver.turns.bulk import OPEN

    turn = rt.turns.get(user, session, invocation)
    if turn.state not in OPEN:
        raise RequestError(f"turn {invocation!r} has ended already: it is {turn.state}")
    return turn


def _action(rt: Runtime) -> Action[TurnInfo]:
    from runtime.frontends.console.bulk.acting import Action
    from runtime.frontends.console.bulk.rows import TURN_COLUMNS, turn_row

    def done(step: BulkStep[TurnInfo]) -> tuple[str, dict[str, object]]:
        turn, sealed = step.of.invocation_id, step.sealed_calls
        calls = "1 call" if sealed == 1 else f"{sealed} calls"
        line = f"{turn} is cancelled; sealed: {calls} answered " + '{"error": "cancelled"}'
        return line, {"invocationId": turn, "state": "cancelled", "sealedCalls": sealed}

    return Action("cancel", "cancelled", TURN_COLUMNS, turn_row, rt.turns.cancel_all, done)
