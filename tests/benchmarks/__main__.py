"""`python -m tests.benchmarks`: measure everything and print one table."""

from __future__ import annotations

import logging
import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import ray
import typer
from rich.console import Console

from runtime.settings import Settings
from tests.benchmarks import (
    activation,
    flow,
    gemini,
    loop,
    peers,
    profiling,
    recovery,
    startup,
    streaming,
    throughput,
    transfer,
    trees,
    turns,
)
from tests.benchmarks.figures import Figure, table, timed_ms
from tests.benchmarks.plan import FULL, QUICK, Plan

BENCHMARKS: dict[str, Callable[[Plan], list[Figure]]] = {
    module.NAME: module.measure
    for module in (startup, activation, trees, turns, throughput, transfer, loop, flow, streaming, gemini, recovery)
}

Names = Annotated[list[str] | None, typer.Option("--only", help=f"One of {', '.join(BENCHMARKS)}; may be given again.")]


def main(
    only: Names = None,
    quick: Annotated[bool, typer.Option(help="Fewer turns, under a minute.")] = False,
    with_peers: Annotated[bool, typer.Option("--peers", help="Compare with other projects, in .venv-peers.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    profile: Annotated[profiling.Process | None, typer.Option(help="Only sample this process under load, by py-spy.")] = None,
    seconds: Annotated[int, typer.Option(help="How long to sample.")] = 10,
) -> None:
    """Measure what turns, transfers, loops, streams, starts and losses cost, against raw Ray in the same run."""
    console = Console() if sys.stdout.isatty() else Console(width=120)
    unknown = sorted(set(only or ()) - set(BENCHMARKS))
    if unknown:
        raise typer.BadParameter(f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    plan = QUICK if quick else FULL
    figures = [Figure(benchmark="startup", name="Ray starts", value=timed_ms(_start_ray), unit="ms")]
    if profile is not None:
        console.print(profiling.table(profiling.profile(plan, profile, seconds), profile))
        return
    try:
        for name in only or BENCHMARKS:
            console.print(f"measuring {name} …", style="dim")
            figures += BENCHMARKS[name](plan)
        if with_peers:
            figures += _peers(plan, figures)
    finally:
        # What was measured before something failed took minutes.
        console.print(table(figures, _title()))
        if json is not None:
            json.write_bytes(msgspec.json.format(msgspec.json.encode({"machine": _title(), "figures": figures})))


def _peers(plan: Plan, ours: list[Figure]) -> list[Figure]:
    if not peers.is_there():
        peers.make()
    return peers.measure(plan, ours)


def _start_ray() -> None:
    ray.init(namespace=Settings().namespace, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)


def _title() -> str:
    load = " ".join(f"{each:.2f}" for each in os.getloadavg())
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{now} · {os.cpu_count()} CPUs, load {load} · Python {platform.python_version()}, Ray {ray.__version__}"


if __name__ == "__main__":
    typer.run(main)
