"""What HTTP adds to a turn, and how long events take to streams when one server has many."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import ray

from actors.messages.event import USER
from runtime.driver.runtime import Runtime
from runtime.web import app_for
from tests.benchmarks.figures import Figure, interleaved, median, percentile
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import APP, SENTENCE, instant_agent, run_turn, runtime
from tests.support.machine.process_use import cpu_s, use_of
from tests.support.servers.web_load import address_of, following, run_turns
from tests.support.servers.web_server import serving, serving_process

NAME = "web"
_WARM_PER_S = 200
_USER = f"user={USER}"


def measure(plan: Plan) -> list[Figure]:
    """A turn by POST beside the same turn by `rt.run`; then streams of one server, over many sessions and over few."""
    with TemporaryDirectory() as folder, runtime(plan, instant_agent(), Path(folder)) as rt, server(plan, rt) as (pid, url):
        figures = _turns(plan, rt, url)
        for number, sessions in enumerate(plan.followed):
            figures += asyncio.run(_streams(plan, url, pid, sessions, is_first=not number))
    return figures


@contextmanager
def server(plan: Plan, rt: Runtime, app: str = APP) -> Iterator[tuple[int, str]]:
    """A server of a Runtime, in a process of its own, where there are any: its process id and URL."""
    if plan.engine == "local":
        with serving(app_for(rt)) as url:
            yield os.getpid(), url
        return
    with serving_process(app, ray.get_runtime_context().gcs_address) as (process, url):
        yield process.pid, url


def _path(session_id: str) -> str:
    return f"/v1/apps/{APP}/sessions/{session_id}"


def _turns(plan: Plan, rt: Runtime, url: str) -> list[Figure]:
    connection = HTTPConnection(*address_of(url))
    body = msgspec.json.encode({"message": SENTENCE})

    def post() -> None:
        connection.request("POST", f"{_path('http')}/turns?{_USER}", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        response.read()

    contestants = {"http": post, "run": lambda: run_turn(rt, "run")}
    interleaved(contestants, 20)
    samples = interleaved(contestants, plan.turns)
    connection.close()
    http, run = median(samples["http"]), median(samples["run"])
    return [
        Figure("a turn by POST: median", http, "ms", run, "rt.run"),
        Figure("HTTP", http - run, "ms"),
    ]


async def _streams(plan: Plan, url: str, pid: int, sessions: int, *, is_first: bool) -> list[Figure]:
    places = [_path(f"{sessions}-{number}") for number in range(sessions)]
    turns = [f"{place}/turns?{_USER}" for place in places]
    # The sessions have to be there, and their agents in memory.
    await run_turns(url, turns, per_s=_WARM_PER_S, seconds=sessions / _WARM_PER_S)
    streams = [f"{places[number % sessions]}/events?{_USER}&after_seq=2" for number in range(plan.followers)]
    ways_ms: list[float] = []
    without = use_of(pid).memory
    async with following(url, streams, ways_ms):
        held = use_of(pid).memory - without
        used_s = cpu_s(pid)
        await run_turns(url, turns, per_s=plan.posts, seconds=plan.follow_s)
        used_s = cpu_s(pid) - used_s
    of = f"{plan.followers} streams of {sessions} sessions, {plan.posts:g} turns/s"
    return [
        Figure(f"{of}: an event's way, median", median(ways_ms), "ms"),
        Figure(f"{of}: an event's way, p99", percentile(ways_ms, 99), "ms"),
        Figure(f"{of}: CPU of the server", used_s / plan.follow_s * 100, "%"),
        # Later streams take memory that earlier ones have given back.
        *([Figure("memory of a stream", held / plan.followers / 1e3, "kB")] if is_first else []),
    ]
