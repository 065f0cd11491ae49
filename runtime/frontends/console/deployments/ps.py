"""`raygrove ps`: the deployments that run."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from runtime.frontends.console.deployments.options import Address
from runtime.frontends.console.options import Json
from runtime.frontends.console.watching import Watch, WatchedLine, follow

if TYPE_CHECKING:
    from runtime.cluster.deployments import NamedActor
    from runtime.driver.runtime import Runtime
    from runtime.settings import Settings

COLUMNS = ("name", "agents", "live", "spare", "open", "paused", "turns", "tokens", "money", "age", "note", "error")
OPTIONAL = ("money", "note", "error")
"""Columns that are there when a deployment has something for them."""

DAY_S = 86_400

AT_ONCE = 8
"""Deployments that are asked at the same time."""

REPLY_S = 5.0
"""How long the actors of one deployment may take to answer, so that one that hangs does not hide the others."""


def ps(watch: Watch = False, address: Address = None, json: Json = False) -> None:
    """List the deployments on a Ray cluster.

    AGENTS are in the tree, LIVE ones have an actor; SPARE processes wait for agents. OPEN turns run or wait in line. TURNS began
    since the Runner was started. TOKENS and MONEY are those of the turns that began today, by UTC. A NOTE says of a deployment
    that it is draining: it takes no new turns, and stops when its turns have ended; or that it is restarting: the process of its
    Session actor or Runner was lost, and Ray starts it again; and which of its actors are on nodes that drain.
    """
    from runtime.frontends.console.joining import find_ray, running_apps
    from runtime.frontends.console.output import print_json, print_table

    where = find_ray(address)
    if watch:
        follow([name.upper() for name in COLUMNS], lambda: _lines(_rows(running_apps(where), where), where), json=json)
        return
    found = _rows(running_apps(where), where)
    if json:
        print_json({**row, "address": where} for row in found)
        return
    print(f"{'deployments' if found else 'no deployment'} on the Ray at {where}", file=sys.stderr)
    told = [_told(row) for row in found]
    columns = [name for name in COLUMNS if name not in OPTIONAL or any(row.get(name) for row in told)]
    print_table([name.upper() for name in columns], [[_cell(row, name) for name in columns] for row in told])


def _cell(row: dict[str, Any], name: str) -> str:
    """One cell; "-" for what is not known, or not there."""
    value = row.get(name)
    return "-" if value is None or value == "" else str(value)


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people."""
    from runtime.frontends.console.output import duration

    started_s = row["startedS"]
    age = "-" if started_s is None else duration(time.time() - started_s)
    notes = [each for each in ("draining", "restarting") if row.get(each)]
    if there := row.get("onDrainingNodes"):
        notes.append(f"on draining nodes: {', '.join(there)}")
    note = "; ".join(notes)
    return {**row, "age": age, "note": note}


def _lines(rows: Sequence[dict[str, Any]], address: str) -> list[WatchedLine]:
    """The lines of deployments, whose ages alone are no change."""
    told = [(row, _told(row)) for row in rows]
    return [
        WatchedLine(row["name"], tuple(row.items()), [_cell(cells, name) for name in COLUMNS], {**row, "address": address})
        for row, cells in told
    ]


def _rows(apps: Sequence[NamedActor], address: str) -> list[dict[str, Any]]:
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
        rows = threads.map(lambda app: _row(app, address, settings), apps)
        return [{**row, "onDrainingNodes": sorted(draining.get(row["name"], ()))} for row in rows]


def _row(app: NamedActor, address: str, settings: Settings) -> dict[str, Any]:
    from actors.errors import RaygroveError
    from runtime.driver.runtime import Runtime
    from runtime.frontends.console.joining import started

    if app.is_restarting:
        return _named(app) | {"restarting": True}
    try:
        with started(Runtime.connect(app.app, address=address, settings=settings)) as rt:
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
