"""`raygrove ps`, `top` and `tree`: the deployments that run, what their actors do, and the agents of one."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runtime.frontends.console import options, runtimes
from runtime.frontends.console.output import (
    WatchedLine,
    duration,
    follow,
    is_terminal,
    new_console,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from actors.messages.protocol.statistics import Statistics
    from runtime.cluster.deployments import NamedActor
    from runtime.driver.runtime import Runtime
    from runtime.driver.services.outline import AgentInfo
    from runtime.frontends.console.activity import DeploymentWatch, Look
    from runtime.settings import Settings

COLUMNS = ("name", "agents", "live", "spare", "open", "paused", "turns", "tokens", "money", "age", "note", "error")
OPTIONAL = ("money", "note", "error")
"""Columns that are there when a deployment has something for them."""

DAY_S = 86_400

AT_ONCE = 8
"""Deployments that are asked at the same time."""

REPLY_S = 5.0
"""How long the actors of one deployment may take to answer, so that one that hangs does not hide the others."""

LIVE = "●"
"""Marks an agent that has an actor."""

ALL = 1_000_000
"""Agents that are looked through for those that live."""

Under = Annotated[str | None, typer.Option(help="The agent to begin at; by default the root.")]
Depth = Annotated[int | None, typer.Option(help="How many levels below that agent; by default all.", min=0)]
Live = Annotated[bool, typer.Option("--live", help="Only agents of a deployment that have an actor, and those above them.")]
Mermaid = Annotated[bool, typer.Option("--mermaid", help="As a flowchart for Mermaid, with the edges of graphs.")]
Limit = Annotated[int, typer.Option(help="How many agents at most.", min=1)]
Interval = Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)]
Count = Annotated[
    int | None, typer.Option("--count", "-n", help="How many looks; by default one, on a terminal until Ctrl-C.", min=1)
]


def ps(watch: options.Watch = False, address: options.Address = None, json: options.Json = False) -> None:
    """List the deployments on a Ray cluster.

    AGENTS are in the tree, LIVE ones have an actor; SPARE processes wait for agents. OPEN turns run or wait in line. TURNS began
    since the Runner was started. TOKENS and MONEY are those of the turns that began today, by UTC. A NOTE says of a deployment
    that it is draining: it takes no new turns, and stops when its turns have ended; or that it is restarting: the process of its
    Session actor or Runner was lost, and Ray starts it again; and which of its actors are on nodes that drain.
    """

    where = runtimes.find_ray(address)
    if watch:
        follow(
            [name.upper() for name in COLUMNS], lambda: _ps_lines(_ps_rows(runtimes.running_apps(where), where), where), json=json
        )
        return
    found = _ps_rows(runtimes.running_apps(where), where)
    if json:
        print_json({**row, "address": where} for row in found)
        return
    print(f"{'deployments' if found else 'no deployment'} on the Ray at {where}", file=sys.stderr)
    told = [_told(row) for row in found]
    columns = [name for name in COLUMNS if name not in OPTIONAL or any(row.get(name) for row in told)]
    print_table([name.upper() for name in columns], [[_ps_cell(row, name) for name in columns] for row in told])


def _ps_cell(row: dict[str, Any], name: str) -> str:
    """One cell; "-" for what is not known, or not there."""
    value = row.get(name)
    return "-" if value is None or value == "" else str(value)


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people."""

    started_s = row["startedS"]
    age = "-" if started_s is None else duration(time.time() - started_s)
    notes = [each for each in ("draining", "restarting") if row.get(each)]
    if there := row.get("onDrainingNodes"):
        notes.append(f"on draining nodes: {', '.join(there)}")
    note = "; ".join(notes)
    return {**row, "age": age, "note": note}


def _ps_lines(rows: Sequence[dict[str, Any]], address: str) -> list[WatchedLine]:
    """The lines of deployments, whose ages alone are no change."""
    told = [(row, _told(row)) for row in rows]
    return [
        WatchedLine(row["name"], tuple(row.items()), [_ps_cell(cells, name) for name in COLUMNS], {**row, "address": address})
        for row, cells in told
    ]


def _ps_rows(apps: Sequence[NamedActor], address: str) -> list[dict[str, Any]]:
    """A row for each app. They are asked side by side, over one connection with Ray."""
    if not apps:
        return []
    from concurrent.futures import ThreadPoolExecutor

    from actors.errors import RaygroveError
    from runtime.cluster.deployment.connection import RayConnection
    from runtime.cluster.deployments import on_draining_nodes
    from runtime.settings import Settings

    settings = Settings(start_timeout_s=REPLY_S)
    connection = RayConnection(settings, address, may_start=False)
    try:
        connection.open()
    except RaygroveError as error:
        return [_unanswered(app, error) for app in apps]
    with closing(connection), ThreadPoolExecutor(AT_ONCE) as threads:
        draining = on_draining_nodes(address)
        rows = threads.map(lambda app: _ps_row(app, address, settings), apps)
        return [{**row, "onDrainingNodes": sorted(draining.get(row["name"], ()))} for row in rows]


def _ps_row(app: NamedActor, address: str, settings: Settings) -> dict[str, Any]:
    from actors.errors import RaygroveError
    from runtime.driver.runtime import Runtime

    if app.is_restarting:
        return _named(app) | {"restarting": True}
    try:
        with Runtime.connect(app.app, address=address, settings=settings) as rt:
            seen, turns = rt.statistics(), rt.turns.counts()
            return _named(app) | {
                "agents": 1 + rt.tree(limit=1).hidden,
                "live": len(seen.agents),
                "spare": seen.runner.counts["spares"],
                "open": turns.open,
                "paused": turns.paused,
                "turns": seen.runner.counts["turns"],
                **_used_today(rt),
                "draining": bool(seen.runner.counts["draining"]),
            }
    except RaygroveError as error:
        return _unanswered(app, error)


def _used_today(rt: Runtime) -> dict[str, Any]:
    """Tokens of the day's turns, and what they cost; nothing where the store reports no usage."""
    from actors.errors import StoreError

    try:
        used = rt.usage(since=time.time() // DAY_S * DAY_S)
    except StoreError:
        return {}
    money = used.total.money
    return {"tokens": used.total.tokens, "money": None if money is None else f"{money:.4f} {used.currency}"}


def _named(app: NamedActor) -> dict[str, Any]:
    return {"name": app.app, "startedS": app.started_s}


def _unanswered(app: NamedActor, error: Exception) -> dict[str, Any]:
    return _named(app) | {"error": " ".join(str(error).split())}


def top(
    name: options.Name, interval: Interval = 1.0, count: Count = None, address: options.Address = None, json: options.Json = False
) -> None:
    """Show what the actors of a deployment do, agents that are busiest first. On a terminal it goes on until Ctrl-C.

    RUNNING are turns of a Runner and runs of an agent. DONE are events of a Session actor, turns and runs since the actor began,
    /MIN those since the last look, CALLS those of models. CPU and MEMORY are those of the process,
    which agents may share. RESTARTS are processes that were lost.
    """

    try:
        with runtimes.joined(name, address) as rt:
            from runtime.frontends.console.activity import COLUMNS, DeploymentWatch

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

    from runtime.frontends.console.activity import COLUMNS

    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for column in COLUMNS:
        # Where there is too little room, only names are folded.
        is_name = column == "ACTOR"
        table.add_column(column, no_wrap=not is_name, overflow="fold", justify="left" if is_name else "right")
    for row in look.actors[:room]:
        table.add_row(*map(Text, row.cells()))
    more = len(look.actors) - room
    return Group(Text("  ".join(look.summary())), table, *([Text(f"{more} more")] if more > 0 else []))


def tree(
    app: options.App,
    under: Under = None,
    depth: Depth = None,
    live: Live = False,
    limit: Limit = 1_000,
    address: options.Address = None,
    mermaid: Mermaid = False,
    json: options.Json = False,
) -> None:
    """Draw the agents of an app, or of a deployment, where those that have an actor are marked."""
    from actors.errors import RequestError
    from runtime.frontends.console.terminal import Terminal

    deployment = runtimes.deployment_of(runtimes.Where(app, address=address))
    actors: Mapping[str, Statistics] = {}
    if deployment is None:
        if live or address is not None:
            raise RequestError(f"{app!r} is code, of which no agent lives: --live and --address go with the name of a deployment")
        root = runtimes.open_app(runtimes.Where(app)).tree(under, depth=depth, limit=limit)
    else:
        with deployment as rt:
            root = rt.tree(under, depth=depth, limit=ALL if live else limit)
            actors = rt.statistics().agents
    if mermaid:
        Terminal().write(root.mermaid())
    else:
        _print_tree(root, actors, json=json, shown=_with_those_above(root, actors) if live else None)


def _print_tree(root: AgentInfo, actors: Mapping[str, Statistics], *, json: bool, shown: Collection[str] | None) -> None:
    """Print agents, parents before their children, and the edges of graphs.

    Args:
        actors: of the agents that live.
        shown: the agents to print; None: all.
    """
    import msgspec

    from runtime.driver.services.outline import edge_lines
    from runtime.frontends.console.terminal import Terminal

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
