"""How many turns a second a deployment over PostgreSQL gets done, beside one over SQLite, and with two Session shards beside one.

All deployments are there at once, and take turns being measured. PostgreSQL's server runs on the same machine, and waits for the
disk with each commit, as SQLite does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import uvloop

from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.throughput import talk
from tests.benchmarks.workloads import APP, LoadResult, instant_agent, run_load, runtime, store_url
from tests.support.machine.process_use import cpu_s
from tests.support.servers.postgres_server import postgres_server, short_folder
from tests.support.sharded_runtimes import own_tables

NAME = "postgres"

SQLITE, ONE_SHARD, TWO_SHARDS = "SQLite", "PostgreSQL", "PostgreSQL, 2 Session shards"

REFERENCES = {SQLITE: "", ONE_SHARD: SQLITE, TWO_SHARDS: ONE_SHARD}
"""The deployment with which each is compared."""

TIMES = 8
"""Rounds in a row of each deployment, by turns: a ratio is that of two which were neighbours in time. Only the middle of many
says much: that of two which are alike is anything from 0.85 to 1.15."""

TURNS_OF_A_SESSION = 8
"""Turns of each session in a round, at least."""


def measure(plan: Plan) -> list[Figure]:
    """Rates and CPU of the Session actors, at every number of sessions."""
    with TemporaryDirectory() as folder, short_folder() as place, postgres_server(place, is_durable=True) as server:
        stores = {
            SQLITE: (store_url(Path(folder)), 1),
            ONE_SHARD: (own_tables(server.url), 1),
            TWO_SHARDS: (own_tables(server.url), 2),
        }
        return uvloop.run(_measure(plan, Path(folder), stores))


async def _measure(plan: Plan, folder: Path, stores: Mapping[str, tuple[str, int]]) -> list[Figure]:
    async with AsyncExitStack() as stack:
        measured: dict[str, Measured] = {}
        for number, (name, (url, shards)) in enumerate(stores.items()):
            made = runtime(plan, instant_agent(), folder, f"{APP}-{number}", session_store=url, session_shards=shards)
            measured[name] = Measured(await stack.enter_async_context(made))
        most = max(plan.concurrency)
        for each in measured.values():
            await each.begin("session", most)
        for number in range(plan.load_rounds):
            for sessions in plan.concurrency:
                for each in measured.values():
                    await each.begin(f"round-{number}-of-{sessions}", sessions)
                for time in range(TIMES):
                    in_order = list(measured.values())
                    for each in in_order[::-1] if time % 2 else in_order:
                        await each.take(sessions, max(plan.load, TURNS_OF_A_SESSION * sessions))
    return [
        figure
        for sessions in plan.concurrency
        for name, each in measured.items()
        for figure in _figures(name, sessions, each, measured.get(REFERENCES[name]))
    ]


class Measured:
    """A deployment, and what was measured of it, by the number of sessions at once.

    Attributes:
        loads: rounds.
        cpu_ms: of all Session actors, for a turn, in each round.
    """

    def __init__(self, rt: Runtime) -> None:
        self.rt = rt
        self._turn = talk(rt)
        self.loads: dict[int, list[LoadResult]] = {}
        self.cpu_ms: dict[int, list[float]] = {}

    async def begin(self, names: str, sessions: int) -> None:
        """Have the next rounds in new sessions with such names."""
        self._turn = talk(self.rt, names)
        await run_load(self._turn, sessions=sessions, turns=2 * sessions)

    async def take(self, sessions: int, turns: int) -> None:
        with self._cpu_of_turns(sessions, turns // sessions * sessions):
            self.loads.setdefault(sessions, []).append(await run_load(self._turn, sessions=sessions, turns=turns))

    @contextmanager
    def _cpu_of_turns(self, sessions: int, turns: int) -> Iterator[None]:
        session = self.rt.statistics().session
        pids = {part.pid or os.getpid() for part in session.parts or [session]}
        before_s = sum(map(cpu_s, pids))
        yield
        self.cpu_ms.setdefault(sessions, []).append((sum(map(cpu_s, pids)) - before_s) * 1_000 / turns)

    def rate(self, sessions: int) -> float:
        """Turns a second, the median of all rounds."""
        return median([each.rate for each in self.loads[sessions]])

    def slower_than(self, other: Measured, sessions: int) -> float:
        """How many times slower than another deployment, the median of all rounds."""
        return median([theirs.rate / own.rate for own, theirs in zip(self.loads[sessions], other.loads[sessions], strict=True)])

    def cpu(self, sessions: int) -> float:
        """Milliseconds of CPU, the median of all rounds."""
        return median(self.cpu_ms[sessions])


def _figures(name: str, sessions: int, of: Measured, other: Measured | None) -> list[Figure]:
    at = f"{name}, {sessions} sessions"
    rate = Figure(f"{at}: rate", of.rate(sessions), "turns/s")
    cpu = Figure(f"{at}: CPU of Session actors, a turn", of.cpu(sessions), "ms")
    if other is None:
        return [rate, cpu]
    beside = REFERENCES[name]
    return [
        msgspec.structs.replace(
            rate, reference=other.rate(sessions), reference_name=beside, paired=of.slower_than(other, sessions)
        ),
        msgspec.structs.replace(cpu, reference=other.cpu(sessions), reference_name=beside),
    ]
