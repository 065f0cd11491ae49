"""Three times as many turns as a deployment bears: how fast the others are refused, and what it bears afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.plan import Plan
from tests.benchmarks.web import server
from tests.benchmarks.workloads import APP, runtime
from tests.support.load.overload import Load, RuntimeLoad, clients_of, looking_agent
from tests.support.load.tally import Tally

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
        figures = await _asked(plan, "rt.run", RuntimeLoad(rt))
        with server(plan, rt) as (_, url), clients_of(url, APP) as clients:
            figures += await _asked(plan, "HTTP", clients)
    return figures


async def _asked(plan: Plan, way: str, load: Load) -> list[Figure]:
    usual, much = Tally(), Tally()
    await load.bears_per_s(plan.overload_s / 4, usual)
    bears = await load.bears_per_s(plan.overload_s / 4, usual)
    await load.overload(TIMES * bears, plan.overload_s, much)
    again = await load.bears_per_s(plan.overload_s / 4, usual)
    assert not much.errors, much.errors
    refused = f"{way}: {TIMES} times as many, refused"
    took_ms = {"": much.refused_ms or much.answered_ms}
    if much.refused_sent_ms:
        took_ms[" of what was sent"] = much.refused_sent_ms
    return [
        Figure(benchmark=NAME, name=f"{way}: turns that it bears", value=bears, unit="turns/s"),
        Figure(benchmark=NAME, name=f"{refused}: median", value=percentile(took_ms[""], 50), unit="ms"),
        *(
            Figure(benchmark=NAME, name=f"{refused}: p99{of}", value=percentile(took, 99), unit="ms")
            for of, took in took_ms.items()
        ),
        Figure(benchmark=NAME, name=f"{way}: afterwards", value=again, unit="turns/s", reference=bears, reference_name="before"),
    ]
