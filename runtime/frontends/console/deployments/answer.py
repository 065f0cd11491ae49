"""`raygrove answer`: answers a call at which a turn waits for a person, or all calls that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runtime.frontends.console.bulk.options import DryRun, OfAgent, OlderThan, Since, WithId, Yes
from runtime.frontends.console.deployments.options import Address, Name, SomeSession, User, Verbose
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.layers.listing.messages import PendingCall
    from runtime.driver.runtime import Runtime
    from runtime.driver.turns.bulk import BulkReport, BulkStep
    from runtime.frontends.console.bulk.acting import Action

YES, NO = ("yes", "y", "true"), ("no", "n", "false")

CallId = Annotated[
    str | None, typer.Argument(metavar="CALL_ID", help="The call, as `raygrove turns` names it.", show_default=False)
]
Value = Annotated[
    str | None,
    typer.Argument(metavar="VALUE", help="yes or no for a confirmation, else the result, as JSON.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="All calls that wait and fit, of the session or of the deployment.")]
ForAll = Annotated[str | None, typer.Option("--value", metavar="VALUE", help="With --all: the answer to each of the calls.")]
Tool = Annotated[str | None, typer.Option(help="With --all: only calls of this tool.")]


def answer(
    name: Name,
    session: SomeSession = None,
    call_id: CallId = None,
    value: Value = None,
    all_: All = False,
    for_all: ForAll = None,
    tool: Tool = None,
    user: User = None,
    agent: OfAgent = None,
    with_id: WithId = None,
    since: Since = None,
    older_than: OlderThan = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    verbose: Verbose = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Answer a call at which a turn is paused, and print how the turn goes on. Ctrl-C leaves it, and cancels nothing.

    With --all and --value every call that fits gets that answer, and its turn is not followed. Ages count from the call on.
    Without a session it asks before it begins. After an interruption the same command goes on with the calls that still wait.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn waits again, 130 Ctrl-C.
    """
    from actors.errors import RequestError
    from runtime.driver.turns.finding import CallQuery
    from runtime.frontends.console.bulk.acting import act
    from runtime.frontends.console.joining import joined, user_of
    from runtime.frontends.console.options import given_age

    filters = (for_all, tool, agent, with_id, since, older_than)
    if all_ and (call_id is not None or for_all is None):
        raise RequestError("--all answers every call that fits with --value, and names none")
    if not all_ and (dry_run or any(each is not None for each in filters)):
        raise RequestError("options that say which calls go with --all")
    if not all_ and (session is None or call_id is None or value is None):
        raise RequestError("name a session, a call and its answer, or give --all with --value")
    with joined(name, address) as rt:
        owner = user_of(rt, session, user) if session is not None else user
        if for_all is not None:
            which = CallQuery(
                user_id=owner,
                session_id=session,
                tool=tool,
                agent=agent,
                invocation=with_id,
                since=given_age(since),
                older_than=given_age(older_than),
            )
            found = rt.turns.answer_all(which, None, dry_run=True).done
            code = act(_action(rt, for_all), found, dry_run=dry_run, yes=yes or session is not None, json=json)
        else:
            code = _answer_one(rt, name, owner or "", session or "", call_id or "", value or "", verbose=verbose, json=json)
    raise typer.Exit(code)


def _answer_one(rt: Runtime, name: str, user: str, session: str, call_id: str, value: str, *, verbose: bool, json: bool) -> int:
    """Answer a call, and follow its turn. Returns the exit code. Raises RequestError when the call does not wait."""
    from actors.errors import RequestError
    from actors.messages.config import RunConfig
    from runtime.frontends.console.deployments.outcomes import follow

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


def _action(rt: Runtime, value: str) -> Action[Sequence[PendingCall]]:
    from runtime.frontends.console.bulk.acting import Action
    from runtime.frontends.console.bulk.rows import CALL_COLUMNS, calls_row

    def do(turns: Sequence[Sequence[PendingCall]]) -> BulkReport[Sequence[PendingCall]]:
        return rt.turns.answer_all([call for calls in turns for call in calls], lambda call: _given(call, value))

    def done(step: BulkStep[Sequence[PendingCall]]) -> tuple[str, dict[str, object]]:
        turn, answered = step.of[0].invocation_id, [call.call_id for call in step.of]
        return f"{turn} goes on: {', '.join(answered)} answered", {"invocationId": turn, "answered": answered}

    return Action("answer", "answered", CALL_COLUMNS, calls_row, do, done)


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
