"""`raygrove ps`: the deployments that run."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from runtime.frontends.console.deployments.options import Address
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from runtime.cluster.deployments import NamedActor
    from runtime.settings import Settings

COLUMNS = ("name", "agents", "live", "spare", "open", "paused", "turns", "age", "note", "error")
OPTIONAL = ("note", "error")
"""Columns that are there when a deployment has something for them."""

AT_ONCE = 8
"""Deployments that are asked at the same time."""

REPLY_S = 5.0
"""How long the actors of one deployment may take to answer, so that one that hangs does not hide the others."""


def ps(address: Address = None, json: Json = False) -> None:
    """List the deployments on a Ray cluster.

    AGENTS are in the tree, LIVE ones have an actor; SPARE processes wait for agents. OPEN turns run or wait in line. TURNS began
    since the Runner was started. A NOTE says of a deployment that it is draining: it takes no new turns, and stops when its turns
    have ended.
    """
    from runtime.frontends.console.joining import find_ray, running_apps
    from runtime.frontends.console.output import duration, print_json, print_table

    where = find_ray(address)
    found = _rows(running_apps(where), where)
    if json:
        print_json({**row, "address": where} for row in found)
        return
    print(f"{'deployments' if found else 'no deployment'} on the Ray at {where}", file=sys.stderr)
    for row in found:
        started_s = row.pop("startedS")
        if row.get("draining"):
            row["note"] = "draining"
        row["age"] = "-" if started_s is None else duration(time.time() - started_s)
    columns = [name for name in COLUMNS if name not in OPTIONAL or any(row.get(name) for row in found)]
    print_table([name.upper() for name in columns], [[str(row.get(name, "-")) for name in columns] for row in found])


def _rows(apps: Sequence[NamedActor], address: str) -> list[dict[str, Any]]:
    """A row for each app. They are asked side by side, over one connection with Ray."""
    if not apps:
        return []
    from concurrent.futures import ThreadPoolExecutor

    from actors.errors import RaygroveError
    from runtime.cluster.deployment.connection import RayConnection
    from runtime.settings import Settings

    settings = Settings(start_timeout_s=REPLY_S)
    connection = RayConnection(settings, address, may_start=False)
    try:
        connection.open()
    except RaygroveError as error:
        return [_unanswered(app, error) for app in apps]
    with closing(connection), ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(lambda app: _row(app, address, settings), apps))


def _row(app: NamedActor, address: str, settings: Settings) -> dict[str, Any]:
    from actors.errors import RaygroveError
    from runtime.driver.runtime import Runtime
    from runtime.frontends.console.joining import started

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
                "draining": bool(seen.runner.counts["draining"]),
            }
    except RaygroveError as error:
        return _unanswered(app, error)


def _named(app: NamedActor) -> dict[str, Any]:
    return {"name": app.app, "startedS": app.started_s}


def _unanswered(app: NamedActor, error: Exception) -> dict[str, Any]:
    return _named(app) | {"error": " ".join(str(error).split())}
