"""`raygrove turns`, `describe`, `attach` and `tail`: turns of a deployment, and the events of their sessions."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console import options, runtimes
from runtime.frontends.console.output import (
    follow,
    is_terminal,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from actors.layers.listing.messages import PendingCall
    from actors.messages.event import Event
    from runtime.driver.runtime import Runtime

ALL, OPEN = "all", "open"

State = Annotated[str, typer.Option(help="open, all, waiting, running, paused, finished, failed or cancelled.")]
OfUser = Annotated[str | None, typer.Option(help="Only turns of this user.")]
OfSession = Annotated[str | None, typer.Option(help="Only turns of this session.")]
Usage = Annotated[bool, typer.Option("--usage", help="Also what each turn has used: model calls, tokens, and money.")]
Limit = Annotated[int, typer.Option(help="How many turns at most.", min=1)]
Chosen = Annotated[str | None, typer.Argument(metavar="INVOCATION", help="The turn; by default the session's newest.")]
Requests = Annotated[bool, typer.Option("--requests", help="Print what models were asked, as far as it was recorded.")]
Followed = Annotated[
    str, typer.Argument(metavar="INVOCATION", help="The turn, as `raygrove turns` names it.", show_default=False)
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with the events that come, until Ctrl-C.")]
Lines = Annotated[int, typer.Option("--events", "-n", help="How many of the newest events.", min=0)]
After = Annotated[int | None, typer.Option(help="All events after this position; 0 begins at the first one.", min=0)]


def turns(
    name: options.Name,
    state: State = OPEN,
    user: OfUser = None,
    session: OfSession = None,
    agent: options.OfAgent = None,
    error: options.WithError = None,
    text: options.WithText = None,
    with_id: options.WithId = None,
    since: options.Since = None,
    older_than: options.OlderThan = None,
    version: options.OfVersion = None,
    limit: Limit = 100,
    usage: Usage = False,
    watch: options.Watch = False,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """List the turns of a deployment, by default those that have not ended."""
    import msgspec

    from actors.errors import RequestError
    from runtime.driver.turns import bulk
    from runtime.frontends.console.bulk import (
        TURN_COLUMNS,
        USAGE_COLUMNS,
        WIDTHS,
        TurnWatch,
        turn_query,
        turn_row,
        turns_in,
        used_row,
    )
    from runtime.frontends.console.lines import question
    from runtime.frontends.console.terminal import Terminal

    states = {ALL: (None,), OPEN: bulk.OPEN}.get(state, (state,))
    with runtimes.joined(name, address) as rt:
        user = runtimes.user_of(rt, session, user) if session is not None else user
        which = turn_query(user, session, agent, error, with_id, since, older_than, version, text)
        if watch and usage:
            raise RequestError("--usage is for a list that is printed once: give it without --watch")
        if watch:
            follow(TURN_COLUMNS, TurnWatch(rt, lambda: turns_in(rt, which, states, limit)).lines, json=json, widths=WIDTHS)
            return
        found = turns_in(rt, which, states, limit)
        paused = any(turn.state == "paused" for turn in found)
        used = rt.usages(found) if usage else []
        pending = rt.turns.pending(user, session, runtimes.MANY) if paused else []
    waits: dict[str, list[PendingCall]] = {}
    for call in pending:
        waits.setdefault(call.invocation_id, []).append(call)
    if json:
        print_json(
            msgspec.to_builtins(turn)
            | {"pending": msgspec.to_builtins(waits.get(turn.invocation_id, []))}
            | ({"usage": msgspec.to_builtins(report)} if report is not None else {})
            for turn, report in zip_longest(found, used)
        )
        return
    columns = (*TURN_COLUMNS, *(USAGE_COLUMNS if usage else ()))
    rows = [
        (*turn_row(turn, waits.get(turn.invocation_id, ())), *(used_row(report) if report is not None else ()))
        for turn, report in zip_longest(found, used)
    ]
    notes = [
        turn.error or "; ".join(f"{call.call_id} {question(call)}" for call in waits.get(turn.invocation_id, ()))
        for turn in found
    ]
    if not is_terminal():
        print_table((*columns, "NOTE"), [(*row, note) for row, note in zip(rows, notes, strict=True)])
        return
    print_table(columns, rows)
    # Below the table: ids and errors leave no room for them in a line of 80 characters.
    for turn, note in zip(found, notes, strict=True):
        if note:
            Terminal().write(f"{turn.session_id} {'waits for' if turn.state == 'paused' else turn.state}: {note}")


def describe(
    name: options.Name,
    session: options.Session,
    invocation: Chosen = None,
    requests: Requests = False,
    user: options.Owner = None,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Print what a turn does, what it waits for, and what it has done; with --requests also what models were asked in it."""
    import msgspec

    from runtime.frontends.console.lines import requests_lines, turn_lines
    from runtime.frontends.console.terminal import Terminal

    with runtimes.joined(name, address) as rt:
        owner = runtimes.user_of(rt, session, user)
        turn = rt.turns.describe(owner, session, invocation or _newest(rt, owner, session))
        calls = rt.turns.requests(owner, session, turn.turn.invocation_id) if requests else []
    if json:
        print_json([msgspec.to_builtins(turn) | ({"requests": msgspec.to_builtins(calls)} if requests else {})])
        return
    terminal = Terminal()
    for line in turn_lines(turn):
        terminal.write(line)
    for line in requests_lines(calls) if requests else ():
        terminal.write(line)


def _newest(rt: Runtime, user: str, session: str) -> str:
    """The newest turn of a session: one that runs before those in line. Raises RequestError when it has none."""
    from actors.errors import RequestError
    from runtime.driver.turns.finding import LOOKED_AT, newest_of_session

    for state in ("running", None):
        if (newest := newest_of_session(rt.turns.list(user, session, state, LOOKED_AT))) is not None:
            return newest.invocation_id
    raise RequestError(f"session {session!r} has no turn yet")


def attach(
    name: options.Name,
    session: options.Session,
    invocation: Followed,
    user: options.Owner = None,
    verbose: options.Verbose = False,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Join a turn, and print its answer as it comes. Ctrl-C leaves it, and cancels nothing.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn is paused and waits for a person, 130 Ctrl-C.
    """
    from runtime.frontends.console.showing import follow

    with runtimes.joined(name, address) as rt:
        turn = rt.attach(user_id=runtimes.user_of(rt, session, user), session_id=session, invocation_id=invocation)
        code = follow(turn, name, json=json, verbose=verbose)
    raise typer.Exit(code)


def tail(
    name: options.Name,
    session: options.Session,
    follow: Follow = False,
    events: Lines = 10,
    after: After = None,
    user: options.Owner = None,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Print the newest events of a session: their position, author and content."""

    try:
        with runtimes.joined(name, address) as rt:
            owner = runtimes.user_of(rt, session, user)
            if after is None:
                newest = rt.sessions.events(owner, session, limit=events + 1, newest_first=True)
                after = newest[events].seq if len(newest) > events else 0
            if follow:
                for event in rt.sessions.tail(owner, session, after_seq=after):
                    _print(event, json=json)
                return
            while page := rt.sessions.events(owner, session, after_seq=after):
                for event in page:
                    _print(event, json=json)
                after = page[-1].seq
    except KeyboardInterrupt:
        return


def _print(event: Event, *, json: bool) -> None:
    from runtime.frontends.console.lines import event_lines
    from runtime.frontends.console.terminal import Terminal

    if json:
        print(event.to_json(), flush=True)
        return
    terminal = Terminal()
    for kind, text in event_lines(event):
        if terminal.is_terminal:
            terminal.write(f"{event.seq:>5}  {event.author}  {kind}  {text}")
        else:
            terminal.write("\t".join((str(event.seq), event.author, kind, " ".join(text.split()))))
