"""Starts, memory and losses on a plain local Ray, which is as clusters have it. All other benchmarks run on a light one."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import ray

from runtime.cluster.ray.local_ray import starting_ray
from runtime.settings import Settings
from tests.benchmarks import footprint, recovery, startup
from tests.benchmarks.figures import Figure, timed_ms
from tests.benchmarks.plan import Plan

NAME = "plain"


def measure(plan: Plan) -> list[Figure]:
    """The figures of a process with a Ray of its own; the local engine, which has none, is measured here."""
    if plan.engine == "local":
        return figures(plan)
    command = [sys.executable, "-m", "tests.benchmarks.plain", msgspec.json.encode(plan).decode()]
    environment = {**os.environ, "RAYGROVE_LOCAL_RAY": "plain"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    # Ray tells of lost processes on the same output.
    (told,) = (line for line in done.stdout.splitlines() if line.startswith(b"[{"))
    return msgspec.json.decode(told, type=list[Figure])


def figures(plan: Plan) -> list[Figure]:
    """The start of a Runtime, the memory of each process after one turn, and how long a turn is held up by losses."""
    with TemporaryDirectory() as folder:
        memories = asyncio.run(footprint.memories(plan, Path(folder)))
    losses = recovery.measure(plan, recovery.CORE_VICTIMS) if plan.engine == "ray" else []
    return [msgspec.structs.replace(each, benchmark=NAME) for each in [*startup.measure(plan), *memories, *losses]]


def start_ray() -> None:
    """Start a local Ray for this process, as RAYGROVE_LOCAL_RAY says."""
    settings = Settings()
    # "local": not one that happens to be on this machine.
    with starting_ray(settings.local_ray):
        ray.init("local", namespace=settings.namespace, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)


def main() -> None:
    """Print the figures of the plan that is the argument, as JSON."""
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    started = Figure("Ray starts", timed_ms(start_ray), "ms")
    print(msgspec.json.encode([started, *figures(plan)]).decode())


if __name__ == "__main__":
    main()
