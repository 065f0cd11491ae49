"""`raygrove ps`: the deployments that run."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from runtime.console.deployments.options import Address
from runtime.console.options import Json

if TYPE_CHECKING:
    from runtime.cluster.deployments import NamedActor

COLUMNS = ("name", "agents", "live", "spare", "open", "paused", "turns", "age", "error")

REPLY_S = 5.0
"""How long the actors of one deployment may take to answer, so that one that hangs does not hide the others."""


def ps(address: Address = None, json: Json = False) -> None:
    """List the deployments on a Ray cluster.

    AGENTS are in the tree, LIVE ones have an actor; SPARE processes wait for agents. OPEN turns run or wait in line. TURNS began
    since the Runner was started.
    """
    from runtime.console.deployments.joining import find_ray, running_apps
    from runtime.console.output import duration, print_json, print_table

    where = find_ray(address)
    found = [_row(each, where) for each in running_apps(where)]
    if json:
        print_json({**row, "address": where} for row in found)
        return
    print(f"{'deployments' if found else 'no deployment'} on the Ray at {where}", file=sys.stderr)
    for row in found:
        started_s = row.pop("startedS")
        row["age"] = "-" if started_s is None else duration(time.time() - started_s)
    columns = [name for name in COLUMNS if name != "error" or any(row.get("error") for row in found)]
    print_table([name.upper() for name in columns], [[str(row.get(name, "-")) for name in columns] for row in found])


def _row(app: NamedActor, address: str) -> dict[str, Any]:
    from actors.errors import RaygroveError
    from runtime.console.deployments.joining import MANY, started
    from runtime.driver.runtime import Runtime
    from runtime.settings import Settings

    row: dict[str, Any] = {"name": app.app, "startedS": app.started_s}
    try:
        with started(Runtime.connect(app.app, address=address, settings=Settings(start_timeout_s=REPLY_S))) as rt:
            seen = rt.statistics()
            number = {state: len(rt.turns.list(state=state, limit=MANY)) for state in ("waiting", "running", "paused")}
            return row | {
                "agents": 1 + rt.tree(limit=1).hidden,
                "live": len(seen.agents),
                "spare": seen.runner.counts["spares"],
                "open": number["waiting"] + number["running"],
                "paused": number["paused"],
                "turns": seen.runner.counts["turns"],
            }
    except RaygroveError as error:
        return row | {"error": " ".join(str(error).split())}
