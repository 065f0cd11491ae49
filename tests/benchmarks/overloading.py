"""Three times as many turns as a deployment bears: how fast the others are refused, and what it bears afterwards."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.plan import Plan
from tests.benchmarks.web import server
from tests.benchmarks.workloads import APP, runtime
from tests.support.overload import Ask, Connections, Tally, bears_per_s, looking_agent, of_runtime, of_server, overload

NAME = "overload"

TIMES = 3
WAITING = 200
"""Turns that may wait: about as many as are served in a tenth of a second."""


def measure(plan: Plan) -> list[Figure]:
    """A program of the deployment asks; then clients of a server."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_measure(plan, Path(folder)))


async def _measure(plan: Plan, folder: Path) -> list[Figure]:
    async with runtime(plan, looking_agent(), folder, max_waiting_turns=WAITING) as rt:
        figures = await _asked(plan, "rt.run", of_runtime(rt))
        with server(plan, rt) as (_, url), closing(Connections(url)) as connections:
            figures += await _asked(plan, "HTTP", of_server(connections, APP))
    return figures


async def _asked(plan: Plan, way: str, ask: Ask) -> list[Figure]:
    usual, much = Tally(), Tally()
    await bears_per_s(ask, plan.overload_s / 4, usual)
    bears = await bears_per_s(ask, plan.overload_s / 4, usual)
    await overload(ask, TIMES * bears, plan.overload_s, much)
    again = await bears_per_s(ask, plan.overload_s / 4, usual)
    assert not much.errors, much.errors
    refused_ms = much.refused_ms or much.answered_ms
    return [
        Figure(benchmark=NAME, name=f"{way}: turns that it bears", value=bears, unit="turns/s"),
        Figure(
            benchmark=NAME, name=f"{way}: {TIMES} times as many, refused: median", value=percentile(refused_ms, 50), unit="ms"
        ),
        Figure(benchmark=NAME, name=f"{way}: {TIMES} times as many, refused: p99", value=percentile(refused_ms, 99), unit="ms"),
        Figure(benchmark=NAME, name=f"{way}: afterwards", value=again, unit="turns/s", reference=bears, reference_name="before"),
    ]
