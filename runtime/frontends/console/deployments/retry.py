"""`raygrove retry`: runs a failed turn on, or all that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.bulk.options import DryRun, OfAgent, OfVersion, OlderThan, Since, WithError, WithId, WithText, Yes
from runtime.frontends.console.deployments.options import Address, Name, SomeSession, User, Verbose
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.messages.turn_info import TurnInfo
    from runtime.driver.runtime import Runtime
    from runtime.driver.turns.bulk import BulkStep
    from runtime.frontends.console.bulk.acting import Action

Failed = Annotated[
    str | None, typer.Argument(metavar="INVOCATION", help="The turn; by default the one of the session that has failed last.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="EVENT", help="Run it again from this event, the last of it that stays; also if it has not failed."
    ),
]
All = Annotated[bool, typer.Option("--all", help="All failed turns that fit, of the session or of the deployment.")]


def retry(
    name: Name,
    session: SomeSession = None,
    invocation: Failed = None,
    from_: From = None,
    all_: All = False,
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
    verbose: Verbose = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Run a failed turn on from its last stored step, and print how it goes on. Ctrl-C leaves it, and cancels nothing.

    With --from what came after that event is taken back, as by a rewind; `raygrove tail --json` shows the ids of events.

    With --all every failed turn that fits runs on, and is not followed. Without a session it asks before it begins. After an
    interruption the same command goes on with those that have not been run on.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn waits, 130 Ctrl-C.
    """
    from actors.errors import RequestError
    from runtime.frontends.console.bulk.acting import act
    from runtime.frontends.console.bulk.choice import turn_query
    from runtime.frontends.console.deployments.outcomes import follow
    from runtime.frontends.console.joining import joined, user_of

    if all_ and invocation is not None:
        raise RequestError("give one turn, or --all, and not both")
    if from_ is not None and (all_ or invocation is None):
        raise RequestError("--from goes with a session and a turn")
    filters = (agent, error, text, with_id, since, older_than, version)
    if not all_ and (session is None or dry_run or any(each is not None for each in filters)):
        raise RequestError("name a session, or give --all, with options that say which turns")
    with joined(name, address) as rt:
        owner = user_of(rt, session, user) if session is not None else user
        if all_:
            which = turn_query(owner, session, agent, error, with_id, since, older_than, version, text)
            failed = rt.turns.retry_all(which, dry_run=True).done
            code = act(_action(rt), failed, dry_run=dry_run, yes=yes or session is not None, json=json)
        else:
            of_user, of_session = owner or "", session or ""
            chosen = invocation or _last_failed(rt, of_user, of_session)
            turn = rt.retry(user_id=of_user, session_id=of_session, invocation_id=chosen, from_event=from_, on_leave="continue")
            code = follow(turn, name, json=json, verbose=verbose)
    raise typer.Exit(code)


def _last_failed(rt: Runtime, user: str, session: str) -> str:
    """The turn of a session that has failed last. Raises RequestError when none has."""
    from actors.errors import RequestError
    from runtime.driver.turns.finding import LOOKED_AT

    failed = rt.turns.list(user, session, "failed", LOOKED_AT)
    if not failed:
        raise RequestError(f"no turn of session {session!r} has failed: there is nothing to retry")
    # By the log: clocks may have been set back.
    return max(failed, key=lambda turn: turn.last_seq).invocation_id


def _action(rt: Runtime) -> Action[TurnInfo]:
    from runtime.frontends.console.bulk.acting import Action
    from runtime.frontends.console.bulk.rows import TURN_COLUMNS, turn_row

    def done(step: BulkStep[TurnInfo]) -> tuple[str, dict[str, object]]:
        turn = step.of.invocation_id
        return f"{turn} runs on", {"invocationId": turn, "state": "running"}

    return Action("retry", "run on", TURN_COLUMNS, turn_row, rt.turns.retry_all, done)
