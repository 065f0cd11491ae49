"""`raygrove tree`: the agents of an app, or of a deployment."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.apps.options import App
from runtime.frontends.console.deployments.options import Address
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.messages.protocol.statistics import Statistics
    from runtime.driver.services.outline import AgentInfo

LIVE = "●"
"""Marks an agent that has an actor."""

ALL = 1_000_000
"""Agents that are looked through for those that live."""

Under = Annotated[str | None, typer.Option(help="The agent to begin at; by default the root.")]
Depth = Annotated[int | None, typer.Option(help="How many levels below that agent; by default all.", min=0)]
Live = Annotated[bool, typer.Option("--live", help="Only agents of a deployment that have an actor, and those above them.")]
Mermaid = Annotated[bool, typer.Option("--mermaid", help="As a flowchart for Mermaid, with the edges of graphs.")]
Limit = Annotated[int, typer.Option(help="How many agents at most.", min=1)]


def tree(
    app: App,
    under: Under = None,
    depth: Depth = None,
    live: Live = False,
    limit: Limit = 1_000,
    address: Address = None,
    mermaid: Mermaid = False,
    json: Json = False,
) -> None:
    """Draw the agents of an app, or of a deployment, where those that have an actor are marked."""
    from actors.errors import RequestError
    from runtime.frontends.console.apps.opening import Where, deployment_of, open_app
    from runtime.frontends.console.apps.terminal import Terminal
    from runtime.frontends.console.joining import started

    deployment = deployment_of(Where(app, address=address))
    actors: Mapping[str, Statistics] = {}
    if deployment is None:
        if live or address is not None:
            raise RequestError(f"{app!r} is code, of which no agent lives: --live and --address go with the name of a deployment")
        root = open_app(Where(app)).tree(under, depth=depth, limit=limit)
    else:
        with started(deployment) as rt:
            root = rt.tree(under, depth=depth, limit=ALL if live else limit)
            actors = rt.statistics().agents
    if mermaid:
        Terminal().write(root.mermaid())
    else:
        _print(root, actors, json=json, shown=_with_those_above(root, actors) if live else None)


def _print(root: AgentInfo, actors: Mapping[str, Statistics], *, json: bool, shown: Collection[str] | None) -> None:
    """Print agents, parents before their children, and the edges of graphs.

    Args:
        actors: of the agents that live.
        shown: the agents to print; None: all.
    """
    import msgspec

    from runtime.driver.services.drawing import edge_lines
    from runtime.frontends.console.apps.terminal import Terminal
    from runtime.frontends.console.output import print_json

    terminal = Terminal()
    for level, agent in root.levels():
        if shown is not None and agent.name not in shown:
            continue
        actor = actors.get(agent.name)
        if json:
            fields = msgspec.to_builtins(agent)
            fields.pop("children", None)
            print_json([fields | {"level": level, "pid": actor.pid if actor is not None else None}])
            continue
        mark = f"  {LIVE} pid {actor.pid}, {actor.counts['runs']} runs" if actor is not None else ""
        terminal.write("  " * level + " ".join(agent.line().split()) + mark)
        for edge in edge_lines(agent.edges):
            terminal.write("  " * (level + 1) + edge)


def _with_those_above(root: AgentInfo, names: Collection[str]) -> set[str]:
    """Agents, and all that are above them up to the root."""
    parents = {agent.name: agent.parent for agent in root}
    found: set[str] = set()
    for name in names:
        above: str | None = name
        while above in parents and above not in found:
            found.add(above)
            above = parents[above]
    return found
