"""`raygrove run`, `chat` and `batch`: turns of an app. They import little: the other commands begin with this module."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from runtime.frontends.console import options, runtimes
from runtime.frontends.console.output import FAILED, INTERRUPTED, PAUSED

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime
    from runtime.driver.turns.turn import Turn
    from runtime.frontends.console.runtimes import Where


STANDARD_INPUT = "-"

Message = Annotated[str | None, typer.Argument(metavar="MESSAGE", help="What to say; - reads it from the standard input.")]
Answer = Annotated[list[str] | None, typer.Option(help="CALL_ID=JSON: go on with a paused turn. May be repeated.")]
NoStream = Annotated[bool, typer.Option("--no-stream", help="Print answers when they are complete.")]
Requests = Annotated[bool, typer.Option("--requests", help="Print what models were asked, on the standard error.")]
EventsJson = Annotated[bool, typer.Option("--json", help="Print the events as JSON, one a line, instead of texts.")]
Session = Annotated[str | None, typer.Option(help="The id of the session; by default a new one.")]
Talk = Annotated[str | None, typer.Option(help="Go on with this conversation; by default a new one begins.")]

Inputs = Annotated[str, typer.Argument(metavar="INPUTS", help="A file of JSON lines or CSV; - reads the standard input.")]
Output = Annotated[str, typer.Option("--output", "-o", help="The file of JSON lines to add to; - is the standard output.")]
Concurrency = Annotated[int, typer.Option(help="How many turns run at the same time.")]
BatchName = Annotated[str | None, typer.Option(help="Begins the ids of the turns; by default the name of the output file.")]
Retries = Annotated[int, typer.Option(help="Further attempts at an input that failed.")]
MessageField = Annotated[str, typer.Option(help="The field, or column, with the message.")]
RowFormat = Annotated[str | None, typer.Option("--format", help="jsonl or csv; by default by the name of the file.")]
AttemptTimeout = Annotated[float | None, typer.Option(help="Seconds after which an attempt is cancelled.")]
Progress = Annotated[bool | None, typer.Option(help="Show the progress; by default on a terminal.", show_default=False)]


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
    json: EventsJson = False,
    verbose: options.Verbose = False,
    requests: Requests = False,
    ray: options.Ray = False,
    address: options.RunAddress = None,
) -> None:
    """Run one turn of an app, and print its answer.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn is paused and waits for a person, 130 Ctrl-C.
    """
    import uuid

    text, answers, state_delta = _message(message, answer or []), options.answers_of(answer or []), options.state_of(state or [])

    from actors.messages.config import RunConfig
    from runtime.frontends.console.showing import show
    from runtime.frontends.console.terminal import Terminal

    where = runtimes.Where(app, app_name, store, ray, address, records=requests)
    config = RunConfig(streaming="none" if no_stream or json else "sse", timeout=timeout)
    session = session or f"run-{uuid.uuid4().hex[:12]}"
    try:
        with runtimes.open_named(where) as rt:
            if answers:
                turn = rt.answer(answers, user_id=user, session_id=session, run_config=config)
            else:
                turn = rt.run(user_id=user, session_id=session, message=text, run_config=config, state_delta=state_delta or None)
            try:
                show(turn, json=json, verbose=verbose)
            finally:
                if requests:
                    _print_requests(rt, user, session, turn.invocation_id)
            if sys.stderr.isatty() and not json:
                Terminal(sys.stderr).dim(f"in a browser: {_shown_by(rt, where, user, session)}")
            code = _end(turn, where, user, session)
    except KeyboardInterrupt:
        print("cancelled", file=sys.stderr)
        code = INTERRUPTED
    raise typer.Exit(code)


def _end(turn: Turn, where: Where, user: str, session: str) -> int:
    """The exit code of a turn that has ended. Says of one that is paused how to answer."""
    from actors.messages.protocol.runs import Paused
    from runtime.frontends.console.showing import how_to_answer

    if not isinstance(turn.result().outcome, Paused):
        return 0
    named: dict[str, str | bool | Sequence[str] | None] = {
        "session": session,
        "user": user if user != "user" else None,
        "app-name": where.app_name,
        "store": where.store,
        "ray": where.ray,
        "address": where.address,
    }
    for line in how_to_answer(turn.pending, where.path, named):
        print(line, file=sys.stderr)
    return PAUSED


def _shown_by(rt: Runtime, where: Where, user: str, session: str) -> str:
    """The command that shows the conversation in a browser, and where it is then."""
    from runtime.frontends.loading.places import is_plain

    place = f"?app={quote(rt.app_name, safe='')}&user={quote(user, safe='')}&session={quote(session, safe='')}"
    address = ["--address", where.address] if where.address is not None else []
    if rt.address is not None and not where.ray and is_plain(where.path):
        return f"{shlex.join(['raygrove', 'ui', where.path, *address])} ({user} / {session})"
    given = [("--app-name", where.app_name), *(("--store", store) for store in where.store or ())]
    words = [*(word for name, value in given if value for word in (name, value)), *address]
    ray = ["--ray"] if where.ray else []
    return f"{shlex.join(['raygrove', 'serve', where.path, *words, *ray])}, then http://127.0.0.1:8000/ui/{place}"


def _print_requests(rt: Runtime, user: str, session: str, invocation_id: str) -> None:
    """Print what models were asked in a turn, also in one that has failed."""
    from actors.errors import RaygroveError
    from runtime.frontends.console.lines import requests_lines
    from runtime.frontends.console.terminal import Terminal

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


def chat(
    app: options.App,
    session: Talk = None,
    user: options.User = "user",
    app_name: options.AppName = None,
    store: options.Store = None,
    state: options.State = None,
    timeout: options.Timeout = None,
    ray: options.Ray = False,
    address: options.RunAddress = None,
) -> None:
    """Talk with an app, also while it works. /help lists the commands, Esc or Ctrl-C cancels a turn, Ctrl-D leaves."""
    given = options.state_of(state or [])

    from actors.messages.config import RunConfig
    from runtime.frontends.console.conversation import Conversation, new_session

    if sys.stdin.isatty():
        import readline  # noqa: F401  input() uses it: earlier lines, and editing.
    with runtimes.open_named(runtimes.Where(app, app_name, store, ray, address)) as rt:
        config = RunConfig(streaming="sse", timeout=timeout)
        Conversation(rt, user=user, session=session or new_session(), state=given, config=config).talk()


def batch(
    app: options.App,
    inputs: Inputs,
    output: Output = "-",
    concurrency: Concurrency = 32,
    name: BatchName = None,
    retries: Retries = 0,
    timeout: AttemptTimeout = None,
    message_field: MessageField = "message",
    format_: RowFormat = None,
    user: options.User = "user",
    app_name: options.AppName = None,
    store: options.Store = None,
    progress: Progress = None,
    ray: options.Ray = False,
    address: options.RunAddress = None,
) -> None:
    """Run a turn for each line of a file, and write the results as JSON lines. Run again, it goes on where it stopped.

    Exit codes: 0 all inputs are answered, 1 some failed, 2 wrong usage, 3 some wait for a person, 130 Ctrl-C.
    """
    from runtime.frontends.console.batches import ResultsFile, RowSource, name_of, perform

    where = runtimes.Where(app, app_name, store, ray, address)
    source, results = RowSource.of(inputs, format_, message_field), ResultsFile(output)
    try:
        with runtimes.open_named(where) as rt:
            summary = perform(
                rt,
                source,
                results,
                name or name_of(output),
                concurrency=concurrency,
                user_id=user,
                retries=retries,
                timeout=timeout,
                progress=progress,
            )
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    summary.print()
    raise typer.Exit(FAILED if summary.failed else PAUSED if summary.outcomes["paused"] else 0)
