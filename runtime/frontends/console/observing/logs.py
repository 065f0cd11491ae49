"""`raygrove logs`: what agents log and print, from all nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")]
Agent = Annotated[str | None, typer.Option(help="Only of this agent.")]
Session = Annotated[str | None, typer.Option(help="Only of this session.")]
User = Annotated[str | None, typer.Option(help="Only of this user's sessions.")]
Since = Annotated[str | None, typer.Option(metavar="AGE", help="Only of the last 90d, 12h, 30m or 10s.")]
Level = Annotated[str, typer.Option(help="From which level on: DEBUG, INFO, WARNING, ERROR or CRITICAL; prints are INFO.")]

TICK_S = 0.2
"""How often lines are printed. Those of several processes that come within this time are put in order."""

LOOK_S = 2.0
"""How often is looked whether the deployment is still there."""


def logs(
    name: Name,
    follow: Follow = False,
    agent: Agent = None,
    session: Session = None,
    user: User = None,
    since: Since = None,
    level: Level = "DEBUG",
    address: Address = None,
    json: Json = False,
) -> None:
    """Print what agents have logged and printed on all nodes, as far as the deployment keeps it; with -f what comes as well.

    With -f it goes on over losses, updates and upgrades, and ends when the deployment has stopped, with the exit code 1.
    """
    import time

    from runtime.frontends.console.joining import joined
    from runtime.frontends.console.observing.log_lines import LogLines, Wanted, level_number
    from runtime.frontends.console.options import parsed_age
    from runtime.observability.logs.lines import JSON
    from runtime.settings import Settings

    after_s = time.time() - parsed_age(since) if since is not None else 0.0
    wanted = Wanted(level_number(level), after_s, agent=agent, session_id=session, user_id=user)
    lines = LogLines(wanted, JSON if json else Settings().log_format)
    try:
        with joined(name, address, lines.add) as rt:
            # Those that are kept are read at the latest when the deployment is left.
            if follow:
                for _ in _ticks(rt):
                    lines.print_all()
    except KeyboardInterrupt:
        pass
    finally:
        lines.print_all()


def _ticks(rt: Runtime) -> Iterator[None]:
    """Moments at which to print, for as long as the deployment is there. Raises DeploymentNotFoundError when it has stopped."""
    import threading
    import time

    from actors.errors import DeploymentNotFoundError, RaygroveError

    ended: list[DeploymentNotFoundError] = []

    def look() -> None:
        # In a thread: while the store is away a reply takes long.
        while not ended:
            time.sleep(LOOK_S)
            try:
                rt.turns.counts()
            except DeploymentNotFoundError as error:
                ended.append(error)
            except RaygroveError:
                # It is upgraded, a process of it is being started again, or its store is away.
                continue

    threading.Thread(target=look, name="presence", daemon=True).start()
    while not ended:
        time.sleep(TICK_S)
        yield
    raise ended[0]
