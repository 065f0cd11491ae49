"""`raygrove tail`: the events of a session, and those that come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name, Session, User
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.messages.event import Event

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with the events that come, until Ctrl-C.")]
Lines = Annotated[int, typer.Option("--events", "-n", help="How many of the newest events.", min=0)]
After = Annotated[int | None, typer.Option(help="All events after this position; 0 begins at the first one.", min=0)]


def tail(
    name: Name,
    session: Session,
    follow: Follow = False,
    events: Lines = 10,
    after: After = None,
    user: User = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Print the newest events of a session: their position, author and content."""
    from runtime.frontends.console.joining import joined, user_of

    try:
        with joined(name, address) as rt:
            owner = user_of(rt, session, user)
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
    from runtime.frontends.console.apps.terminal import Terminal
    from runtime.frontends.console.event_lines import event_lines

    if json:
        print(event.to_json(), flush=True)
        return
    terminal = Terminal()
    for kind, text in event_lines(event):
        if terminal.is_terminal:
            terminal.write(f"{event.seq:>5}  {event.author}  {kind}  {text}")
        else:
            terminal.write("\t".join((str(event.seq), event.author, kind, " ".join(text.split()))))
