"""`raygrove top`: what the actors of a deployment do, as it changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from runtime.frontends.console.deployments.activity import DeploymentWatch, Look

Interval = Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)]
Count = Annotated[
    int | None, typer.Option("--count", "-n", help="How many looks; by default one, on a terminal until Ctrl-C.", min=1)
]


def top(name: Name, interval: Interval = 1.0, count: Count = None, address: Address = None, json: Json = False) -> None:
    """Show what the actors of a deployment do, agents that are busiest first. On a terminal it goes on until Ctrl-C.

    RUNNING are turns of a Runner and runs of an agent. DONE are events of a Session actor, turns and runs since the actor began,
    /MIN those since the last look, CALLS those of models. CPU and MEMORY are those of the process,
    which agents may share. RESTARTS are processes that were lost.
    """
    from runtime.frontends.console.joining import joined
    from runtime.frontends.console.output import is_terminal, print_json

    try:
        with joined(name, address) as rt:
            from runtime.frontends.console.deployments.activity import COLUMNS, DeploymentWatch

            watch = DeploymentWatch(rt)
            if is_terminal() and not json:
                _show(watch, interval, count)
                return
            # Rates need an earlier look.
            watch.look()
            for _ in range(count or 1):
                time.sleep(interval)
                look = watch.look()
                if json:
                    print_json([look])
                else:
                    lines = ["\t".join(cells) for cells in (look.summary(), COLUMNS, *(row.cells() for row in look.actors))]
                    print("\n".join(lines), flush=True)
    except KeyboardInterrupt:
        return


def _show(watch: DeploymentWatch, interval: float, count: int | None) -> None:
    from rich.live import Live

    from runtime.frontends.console.output import new_console

    console = new_console()
    # A tree may have thousands of agents: no more are drawn than there is room for.
    room = max(console.height - 3, 3)
    with Live(_drawn(watch.look(), room), console=console, auto_refresh=False) as live:
        shown = 1
        while count is None or shown < count:
            time.sleep(interval)
            live.update(_drawn(watch.look(), room), refresh=True)
            shown += 1


def _drawn(look: Look, room: int) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from runtime.frontends.console.deployments.activity import COLUMNS

    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for column in COLUMNS:
        # Where there is too little room, only names are folded.
        is_name = column == "ACTOR"
        table.add_column(column, no_wrap=not is_name, overflow="fold", justify="left" if is_name else "right")
    for row in look.actors[:room]:
        table.add_row(*map(Text, row.cells()))
    more = len(look.actors) - room
    return Group(Text("  ".join(look.summary())), table, *([Text(f"{more} more")] if more > 0 else []))
