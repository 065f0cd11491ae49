"""`raygrove cancel`: stops a turn, or all turns that fit."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.bulk.options import DryRun, OfAgent, OfVersion, OlderThan, Since, WithError, WithId, WithText, Yes
from runtime.frontends.console.deployments.options import Address, Invocation, Name, SomeSession, User
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.messages.turn_info import TurnInfo
    from runtime.driver.runtime import Runtime
    from runtime.frontends.console.bulk.acting import Action
    from runtime.frontends.console.bulk.choice import Choice

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
    from actors.errors import RequestError
    from runtime.frontends.console.bulk.acting import act
    from runtime.frontends.console.bulk.choice import Choice
    from runtime.frontends.console.joining import OPEN, joined, user_of

    filters = (state, agent, error, text, with_id, since, older_than, version)
    if all_ and invocation is not None:
        raise RequestError("give one turn, or --all of the session, and not both")
    if not all_ and (session is None or dry_run or any(each is not None for each in filters)):
        raise RequestError("name a session, or give --all, with options that say which turns")
    if state is not None and state not in OPEN:
        raise RequestError(f"state must be one of {', '.join(OPEN)}, not {state!r}: others have ended")
    with joined(name, address) as rt:
        owner = user_of(rt, session, user) if session is not None else user
        choice = Choice(owner, session, agent, error, with_id, since, older_than, version, text)
        turns = choice.turns(rt, OPEN if state is None else (state,)) if all_ else _chosen(rt, choice, invocation)
        if session is not None and not turns:
            raise RequestError(f"no turn of session {session!r} is open: nothing is cancelled")
        code = act(_action(rt), turns, dry_run=dry_run, yes=yes or session is not None, json=json)
    raise typer.Exit(code)


def _chosen(rt: Runtime, choice: Choice, invocation: str | None) -> list[TurnInfo]:
    """The turn to cancel, or none. Raises RequestError when it has ended, or is not the only one."""
    from actors.errors import RequestError
    from runtime.frontends.console.joining import OPEN

    if invocation is not None:
        turn = rt.turns.get(choice.user or "", choice.session or "", invocation)
        if turn.state not in OPEN:
            raise RequestError(f"turn {invocation!r} has ended already: it is {turn.state}")
        return [turn]
    found = choice.turns(rt, OPEN)
    if len(found) > 1:
        named = ", ".join(f"{turn.invocation_id} ({turn.state})" for turn in found[:5])
        raise RequestError(f"session {choice.session!r} has {len(found)} open turns: name one of {named}, or give --all")
    return found


def _action(rt: Runtime) -> Action[TurnInfo]:
    from runtime.frontends.console.bulk.acting import Action, Done
    from runtime.frontends.console.bulk.rows import TURN_COLUMNS, turn_row

    def do(turn: TurnInfo) -> Done:
        sealed = _cancel(rt, turn)
        calls = "1 call" if sealed == 1 else f"{sealed} calls"
        return Done(
            f"{turn.invocation_id} is cancelled; sealed: {calls} answered " + '{"error": "cancelled"}',
            {"invocationId": turn.invocation_id, "state": "cancelled", "sealedCalls": sealed},
        )

    # In a session those in line first: else one of them would begin when the one before it is cancelled.
    return Action("cancel", "cancelled", "turn", TURN_COLUMNS, turn_row, do, lambda turn: (turn.user_id, turn.session_id))


def _cancel(rt: Runtime, turn: TurnInfo) -> int:
    """Cancel a turn. Returns how many calls got an answer by that. Raises RequestError when it has ended meanwhile."""
    from actors.errors import InvocationNotFoundError, RequestError

    user, session = turn.user_id, turn.session_id
    head = max((event.seq for event in rt.sessions.events(user, session, limit=1, newest_first=True)), default=0)
    rt.attach(user_id=user, session_id=session, invocation_id=turn.invocation_id, after_seq=head).cancel()
    # One that waited in line is gone.
    with suppress(InvocationNotFoundError):
        state = rt.turns.get(user, session, turn.invocation_id).state
        if state != "cancelled":
            raise RequestError(f"it has ended already: it is {state}")
    return sum(
        response.response == {"error": "cancelled"}
        for event in rt.sessions.events(user, session, after_seq=head)
        if event.invocation_id == turn.invocation_id
        for response in event.function_responses()
    )
