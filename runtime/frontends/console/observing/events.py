"""`raygrove events`: what has happened to a deployment."""

from __future__ import annotations

from typing import Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json

Since = Annotated[str | None, typer.Option(metavar="AGE", help="Only of the last 90d, 12h, 30m or 10s.")]
Kind = Annotated[str | None, typer.Option(help="Only of this kind, such as 'process lost'.")]


def events(name: Name, since: Since = None, kind: Kind = None, address: Address = None, json: Json = False) -> None:
    """Print what has happened to the processes, the store and the connections of a deployment, the oldest first."""
    import time

    from actors.interfaces.deployment_events import EVENT_KINDS
    from actors.rules.checks.arguments import checked_choice
    from runtime.frontends.console.joining import joined
    from runtime.frontends.console.options import parsed_age
    from runtime.frontends.console.output import local_time, print_json, print_table

    kind = checked_choice("--kind", kind, EVENT_KINDS) if kind is not None else None
    after_s = time.time() - parsed_age(since) if since is not None else 0.0
    with joined(name, address) as rt:
        found = [each for each in rt.deployment_events() if each.at_s >= after_s and kind in (None, each.kind)]
    if json:
        print_json(found)
        return
    rows = [(local_time(each.at_s), each.kind, str(each.pid), each.text) for each in found]
    print_table(("TIME", "KIND", "PID", "TEXT"), rows)
