"""`raygrove run`: one turn of an app. Its answer is all that goes to the standard output."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from runtime.frontends.console.apps import options

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime

PAUSED = 3
"""The exit code of a turn that waits for a person."""

INTERRUPTED = 130
"""The exit code after Ctrl-C, as of other programs."""

STANDARD_INPUT = "-"

Message = Annotated[str | None, typer.Argument(metavar="MESSAGE", help="What to say; - reads it from the standard input.")]
Answer = Annotated[list[str] | None, typer.Option(help="CALL_ID=JSON: go on with a paused turn. May be repeated.")]
NoStream = Annotated[bool, typer.Option("--no-stream", help="Print answers when they are complete.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print calls of tools and transfers on the standard error.")]
Requests = Annotated[bool, typer.Option("--requests", help="Print what models were asked, on the standard error.")]
Json = Annotated[bool, typer.Option("--json", help="Print the events as JSON, one a line, instead of texts.")]
Session = Annotated[str | None, typer.Option(help="The id of the session; by default a new one.")]


def run(
    app: options.App,
    message: Message = None,
    answer: Answer = None,
    session: Session = None,
    user: options.User = "user",
    app_name: options.AppName = None,
    store: options.Store = None,
    state: options.State = None,
    timeout: options.Timeout = None,
    no_stream: NoStream = False,
    json: Json = False,
    verbose: Verbose = False,
    requests: Requests = False,
    ray: options.Ray = False,
    address: options.Address = None,
) -> None:
    """Run one turn of an app, and print its answer.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn is paused and waits for a person, 130 Ctrl-C.
    """
    from runtime.frontends.console.apps.opening import Where

    request = AskedTurn(
        message=_message(message, answer or []),
        answers=options.answers_of(answer or []),
        state=options.state_of(state or []),
        session=session,
        user=user,
        timeout=timeout,
        streams=not (no_stream or json),
        json=json,
        verbose=verbose,
        requests=requests,
    )
    try:
        code = perform(request, Where(app, app_name, store, ray, address, records=requests))
    except KeyboardInterrupt:
        print("cancelled", file=sys.stderr)
        code = INTERRUPTED
    raise typer.Exit(code)


@dataclass(frozen=True)
class AskedTurn:
    """What a turn is to do, and how it is shown.

    Attributes:
        message: of the user; "" when calls are answered.
        answers: of calls, by their ids.
        state: comes with the message.
        session: None: a new one.
        timeout: of the turn, in seconds.
        streams: print pieces of answers as they come.
        json: print events.
        verbose: print what agents do besides speaking.
        requests: print what models were asked.
    """

    message: str
    answers: dict[str, Any]
    state: dict[str, Any]
    session: str | None
    user: str
    timeout: float | None
    streams: bool
    json: bool
    verbose: bool
    requests: bool


def perform(request: AskedTurn, where: Any) -> int:
    """Run the turn. Returns the exit code. Raises RaygroveError, and KeyboardInterrupt when the turn was cancelled by Ctrl-C."""
    import uuid

    from actors.messages.config import RunConfig
    from actors.messages.protocol.outcomes import Paused
    from runtime.frontends.console.apps.opening import open_named
    from runtime.frontends.console.apps.questions import how_to_answer
    from runtime.frontends.console.apps.showing import show
    from runtime.frontends.console.apps.terminal import Terminal

    session = request.session or f"run-{uuid.uuid4().hex[:12]}"
    config = RunConfig(streaming="sse" if request.streams else "none", timeout=request.timeout)
    with open_named(where) as rt:
        if request.answers:
            turn = rt.answer(request.answers, user_id=request.user, session_id=session, run_config=config)
        else:
            turn = rt.run(
                user_id=request.user,
                session_id=session,
                message=request.message,
                run_config=config,
                state_delta=request.state or None,
            )
        try:
            show(turn, json=request.json, verbose=request.verbose)
        finally:
            if request.requests:
                _print_requests(rt, request.user, session, turn.invocation_id)
        if sys.stderr.isatty() and not request.json:
            Terminal(sys.stderr).dim(f"in a browser: {_shown_by(rt, where, request.user, session)}")
        if not isinstance(turn.result().outcome, Paused):
            return 0
        named: dict[str, str | bool | Sequence[str] | None] = {
            "session": session,
            "user": request.user if request.user != "user" else None,
            "app-name": where.app_name,
            "store": where.store,
            "ray": where.ray,
            "address": where.address,
        }
        for line in how_to_answer(turn.pending, where.path, named):
            print(line, file=sys.stderr)
        return PAUSED


def _shown_by(rt: Runtime, where: Any, user: str, session: str) -> str:
    """The command that shows the conversation in a browser, and where it is then."""
    from runtime.frontends.loading.places import is_plain

    place = f"?app={quote(rt.app_name, safe='')}&user={quote(user, safe='')}&session={quote(session, safe='')}"
    address = ["--address", where.address] if where.address is not None else []
    if rt.address is not None and not where.ray and is_plain(where.path):
        return f"{shlex.join(['raygrove', 'ui', where.path, *address])} ({user} / {session})"
    given = (("--app-name", where.app_name), ("--store", where.store))
    options = [*(word for name, value in given if value for word in (name, value)), *address]
    ray = ["--ray"] if where.ray else []
    return f"{shlex.join(['raygrove', 'serve', where.path, *options, *ray])}, then http://127.0.0.1:8000/ui/{place}"


def _print_requests(rt: Runtime, user: str, session: str, invocation_id: str) -> None:
    """Print what models were asked in a turn, also in one that has failed."""
    from actors.errors import RaygroveError
    from runtime.frontends.console.apps.terminal import Terminal
    from runtime.frontends.console.request_lines import requests_lines

    # A turn that could not start is not there, and its error says why.
    with suppress(RaygroveError):
        for line in requests_lines(rt.turns.requests(user, session, invocation_id)):
            Terminal(sys.stderr).dim(line)


def _message(message: str | None, answers: list[str]) -> str:
    from actors.errors import RequestError

    if (message is None) == (not answers):
        raise RequestError("give a message, or answers with --answer, and not both")
    if message == STANDARD_INPUT:
        message = sys.stdin.read()
    if not answers and not (message or "").strip():
        raise RequestError("the message is empty")
    return message or ""
