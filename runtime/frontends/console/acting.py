"""`raygrove answer`, `retry` and `cancel`: acts on one turn of a deployment, or on all that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runtime.frontends.console import options, runtimes

if TYPE_CHECKING:
    from actors.layers.listing.messages import PendingCall
    from actors.messages.turn_info import TurnInfo
    from runtime.driver.runtime import Runtime
    from runtime.driver.turns.bulk import BulkReport, BulkStep
    from runtime.frontends.console.bulk import Action

YES, NO = ("yes", "y", "true"), ("no", "n", "false")

CallId = Annotated[
    str | None, typer.Argument(metavar="CALL_ID", help="The call, as `raygrove turns` names it.", show_default=False)
]
Value = Annotated[
    str | None,
    typer.Argument(metavar="VALUE", help="yes or no for a confirmation, else the result, as JSON.", show_default=False),
]
AllCalls = Annotated[bool, typer.Option("--all", help="All calls that wait and fit, of the session or of the deployment.")]
ForAll = Annotated[str | None, typer.Option("--value", metavar="VALUE", help="With --all: the answer to each of the calls.")]
Tool = Annotated[str | None, typer.Option(help="With --all: only calls of this tool.")]
Failed = Annotated[
    str | None, typer.Argument(metavar="INVOCATION", help="The turn; by default the one of the session that has failed last.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="EVENT", help="Run it again from this event, the last of it that stays; also if it has not failed."
    ),
]
AllFailed = Annotated[bool, typer.Option("--all", help="All failed turns that fit, of the session or of the deployment.")]
AllOpen = Annotated[
    bool, typer.Option("--all", help="All turns that have not ended and fit: of the session, or of the deployment.")
]
OpenState = Annotated[str | None, typer.Option(help="With --all: only those waiting, running or paused.")]


def answer(
    name: options.Name,
    session: options.SomeSession = None,
    call_id: CallId = None,
    value: Value = None,
    all_: AllCalls = False,
    for_all: ForAll = None,
    tool: Tool = None,
    user: options.Owner = None,
    agent: options.OfAgent = None,
    with_id: options.WithId = None,
    since: options.Since = None,
    older_than: options.OlderThan = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    verbose: options.Verbose = False,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Answer a call at which a turn is paused, and print how the turn goes on. Ctrl-C leaves it, and cancels nothing.

    With --all and --value every call that fits gets that answer, and its turn is not followed. Ages count from the call on.
    Without a session it asks before it begins. After an interruption the same command goes on with the calls that still wait.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn waits again, 130 Ctrl-C.
    """
    from actors.errors import RequestError
    from runtime.driver.turns.finding import CallQuery
    from runtime.frontends.console.bulk import act

    filters = (for_all, tool, agent, with_id, since, older_than)
    if all_ and (call_id is not None or for_all is None):
        raise RequestError("--all answers every call that fits with --value, and names none")
    if not all_ and (dry_run or any(each is not None for each in filters)):
        raise RequestError("options that say which calls go with --all")
    if not all_ and (session is None or call_id is None or value is None):
        raise RequestError("name a session, a call and its answer, or give --all with --value")
    with runtimes.joined(name, address) as rt:
        owner = runtimes.user_of(rt, session, user) if session is not None else user
        if for_all is not None:
            which = CallQuery(
                user_id=owner,
                session_id=session,
                tool=tool,
                agent=agent,
                invocation=with_id,
                since=options.given_age(since),
                older_than=options.given_age(older_than),
            )
            found = rt.turns.answer_all(which, None, dry_run=True).done
            code = act(_answering(rt, for_all), found, dry_run=dry_run, yes=yes or session is not None, json=json)
        else:
            code = _answer_one(rt, name, owner or "", session or "", call_id or "", value or "", verbose=verbose, json=json)
    raise typer.Exit(code)


def _answer_one(rt: Runtime, name: str, user: str, session: str, call_id: str, value: str, *, verbose: bool, json: bool) -> int:
    """Answer a call, and follow its turn. Returns the exit code. Raises RequestError when the call does not wait."""
    from actors.errors import RequestError
    from actors.messages.config import RunConfig
    from runtime.frontends.console.showing import follow

    pending = rt.pending(user_id=user, session_id=session)
    call = next((each for each in pending if each.call_id == call_id), None)
    if call is None:
        known = ", ".join(f"{each.call_id} ({each.name})" for each in pending) or "none"
        raise RequestError(f"call {call_id!r} waits for no answer in session {session!r}. Calls that wait: {known}")
    config = RunConfig(streaming="none" if json else "sse")
    turn = rt.answer(
        {call_id: _given(call, value)}, user_id=call.user_id, session_id=session, run_config=config, on_leave="continue"
    )
    return follow(turn, name, json=json, verbose=verbose)


def _answering(rt: Runtime, value: str) -> Action[Sequence[PendingCall]]:
    from runtime.frontends.console.bulk import CALL_COLUMNS, Action, calls_row

    def do(turns: Sequence[Sequence[PendingCall]]) -> BulkReport[Sequence[PendingCall]]:
        return rt.turns.answer_all([call for calls in turns for call in calls], lambda call: _given(call, value))

    def done(step: BulkStep[Sequence[PendingCall]]) -> tuple[str, dict[str, object]]:
        turn, answered = step.of[0].invocation_id, [call.call_id for call in step.of]
        return f"{turn} goes on: {', '.join(answered)} answered", {"invocationId": turn, "answered": answered}

    return Action("answer", "answered", CALL_COLUMNS, calls_row, do, done)


def _given(call: PendingCall, value: str) -> Any:
    """The answer that a word means. Raises RequestError."""
    from actors.errors import RequestError

    if not call.is_confirmation:
        return options.from_json(value, f"the result of {call.name}")
    if value.lower() in (*YES, *NO):
        return value.lower() in YES
    if value.lstrip().startswith("{"):
        return options.from_json(value, f"the answer to {call.name}")
    raise RequestError(f"{call.name} of agent {call.agent!r} must be confirmed: answer yes or no, not {value!r}")


def retry(
    name: options.Name,
    session: options.SomeSession = None,
    invocation: Failed = None,
    from_: From = None,
    all_: AllFailed = False,
    user: options.Owner = None,
    agent: options.OfAgent = None,
    error: options.WithError = None,
    text: options.WithText = None,
    with_id: options.WithId = None,
    since: options.Since = None,
    older_than: options.OlderThan = None,
    version: options.OfVersion = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    verbose: options.Verbose = False,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Run a failed turn on from its last stored step, and print how it goes on. Ctrl-C leaves it, and cancels nothing.

    With --from what came after that event is taken back, as by a rewind; `raygrove tail --json` shows the ids of events.

    With --all every failed turn that fits runs on, and is not followed. Without a session it asks before it begins. After an
    interruption the same command goes on with those that have not been run on.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn waits, 130 Ctrl-C.
    """
    from actors.errors import RequestError
    from runtime.frontends.console.bulk import act, turn_query
    from runtime.frontends.console.showing import follow

    if all_ and invocation is not None:
        raise RequestError("give one turn, or --all, and not both")
    if from_ is not None and (all_ or invocation is None):
        raise RequestError("--from goes with a session and a turn")
    filters = (agent, error, text, with_id, since, older_than, version)
    if not all_ and (session is None or dry_run or any(each is not None for each in filters)):
        raise RequestError("name a session, or give --all, with options that say which turns")
    with runtimes.joined(name, address) as rt:
        owner = runtimes.user_of(rt, session, user) if session is not None else user
        if all_:
            which = turn_query(owner, session, agent, error, with_id, since, older_than, version, text)
            failed = rt.turns.retry_all(which, dry_run=True).done
            code = act(_retrying(rt), failed, dry_run=dry_run, yes=yes or session is not None, json=json)
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


def _retrying(rt: Runtime) -> Action[TurnInfo]:
    from runtime.frontends.console.bulk import TURN_COLUMNS, Action, turn_row

    def done(step: BulkStep[TurnInfo]) -> tuple[str, dict[str, object]]:
        turn = step.of.invocation_id
        return f"{turn} runs on", {"invocationId": turn, "state": "running"}

    return Action("retry", "run on", TURN_COLUMNS, turn_row, rt.turns.retry_all, done)


def cancel(
    name: options.Name,
    session: options.SomeSession = None,
    invocation: options.Invocation = None,
    all_: AllOpen = False,
    state: OpenState = None,
    user: options.Owner = None,
    agent: options.OfAgent = None,
    error: options.WithError = None,
    text: options.WithText = None,
    with_id: options.WithId = None,
    since: options.Since = None,
    older_than: options.OlderThan = None,
    version: options.OfVersion = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Cancel a turn, and wait until its log is sealed: calls without an answer get one. With --all every turn that fits.

    Without a session --all asks before it begins. After an interruption the same command goes on with the rest.
    """
    import msgspec

    from actors.errors import RequestError
    from runtime.driver.turns.bulk import OPEN
    from runtime.frontends.console.bulk import act, turn_query

    filters = (state, agent, error, text, with_id, since, older_than, version)
    if all_ and invocation is not None:
        raise RequestError("give one turn, or --all of the session, and not both")
    if not all_ and (session is None or dry_run or any(each is not None for each in filters)):
        raise RequestError("name a session, or give --all, with options that say which turns")
    if state is not None and state not in OPEN:
        raise RequestError(f"state must be one of {', '.join(OPEN)}, not {state!r}: others have ended")
    with runtimes.joined(name, address) as rt:
        owner = runtimes.user_of(rt, session, user) if session is not None else user
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
        code = act(_cancelling(rt), turns, dry_run=dry_run, yes=yes or session is not None, json=json)
    raise typer.Exit(code)


def _open_turn(rt: Runtime, user: str, session: str, invocation: str) -> TurnInfo:
    """The turn to cancel. Raises RequestError when it has ended."""
    from actors.errors import RequestError
    from runtime.driver.turns.bulk import OPEN

    turn = rt.turns.get(user, session, invocation)
    if turn.state not in OPEN:
        raise RequestError(f"turn {invocation!r} has ended already: it is {turn.state}")
    return turn


def _cancelling(rt: Runtime) -> Action[TurnInfo]:
    from runtime.frontends.console.bulk import TURN_COLUMNS, Action, turn_row

    def done(step: BulkStep[TurnInfo]) -> tuple[str, dict[str, object]]:
        turn, sealed = step.of.invocation_id, step.sealed_calls
        calls = "1 call" if sealed == 1 else f"{sealed} calls"
        line = f"{turn} is cancelled; sealed: {calls} answered " + '{"error": "cancelled"}'
        return line, {"invocationId": turn, "state": "cancelled", "sealedCalls": sealed}

    return Action("cancel", "cancelled", TURN_COLUMNS, turn_row, rt.turns.cancel_all, done)
