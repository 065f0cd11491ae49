"""Three times as many turns as a deployment bears: how fast the others are refused, and what it bears afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.plan import Plan
from tests.benchmarks.web import server
from tests.benchmarks.workloads import APP, runtime
from tests.support.load.http_clients import Tally
from tests.support.load.overload import Load, RuntimeLoad, by_turns, clients_of, looking_agent

NAME = "overload"

_SPARED = "spared"
"""The application that is not asked for more than it bears."""

TIMES = 3
WAITING = 200
"""Turns that may wait: about as many as are served in a tenth of a second."""


def measure(plan: Plan) -> list[Figure]:
    """A program of the deployment asks; then clients of a server."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_measure(plan, Path(folder)))


async def _measure(plan: Plan, folder: Path) -> list[Figure]:
    async with _deployed(plan, folder, APP) as rt, _deployed(plan, folder / _SPARED, _SPARED) as spared:
        figures = await _asked(plan, "rt.run", RuntimeLoad(rt), RuntimeLoad(spared))
        with _clients(plan, rt, APP) as clients, _clients(plan, spared, _SPARED) as others:
            figures += await _asked(plan, "HTTP", clients, others)
    return figures


def _deployed(plan: Plan, folder: Path, app: str) -> Runtime:
    folder.mkdir(exist_ok=True)
    return runtime(plan, looking_agent(), folder, app, max_waiting_turns=WAITING)


@contextmanager
def _clients(plan: Plan, rt: Runtime, app: str) -> Iterator[Load]:
    with server(plan, rt, app) as (_, url), clients_of(url, app) as clients:
        yield clients


async def _asked(plan: Plan, way: str, load: Load, spared: Load) -> list[Figure]:
    usual, much = Tally(), Tally()
    seconds = plan.overload_s / 4
    for each in (spared, load):
        await each.bears_per_s(seconds, usual)
    bears = await load.bears_per_s(seconds, usual)
    await load.overload(TIMES * bears, plan.overload_s, much)
    again, bears_now = await by_turns(seconds, usual, load, spared)
    assert not much.errors, much.errors
    refused = f"{way}: {TIMES} times as many, refused"
    took_ms = {"": much.refused_ms or much.answered_ms}
    if much.refused_sent_ms:
        took_ms[" of what was sent"] = much.refused_sent_ms
    return [
        Figure(f"{way}: turns that it bears", bears, "turns/s"),
        Figure(f"{refused}: median", percentile(took_ms[""], 50), "ms"),
        *(Figure(f"{refused}: p99{of}", percentile(took, 99), "ms") for of, took in took_ms.items()),
        Figure(f"{way}: afterwards", again, "turns/s", bears_now, "one that had no such load"),
    ]
