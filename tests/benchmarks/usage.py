"""What it costs to add up what a user has used who has had ten thousand turns in a year, with each store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from actors import Price
from actors.interfaces.stores import CreateSession, PutTurn, TurnRow, Write
from actors.layers.spending.messages import UsageBy
from actors.messages.session import SessionKey
from actors.rules.accounting import Amounts, packed
from runtime import Runtime
from runtime.stores.sql.sessions import SqlSessionStore
from tests.benchmarks.figures import Figure, median, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import APP, instant_agent, runtime, store_url
from tests.support.machine.process_use import cpu_s
from tests.support.servers.postgres_server import postgres_server, short_folder
from tests.support.sharded_runtimes import own_tables

NAME = "usage"

USER = "user"
CALLS = 20
"""Reports of each kind, one after the other."""

_DAYS, _DAY_S, _BEGAN_S = 365, 86_400, 1_750_000_000
_EACH = 100
"""Turns of a session."""
_COMMIT = 1_000
_TEAMS = (("root", "search"), ("root", "search"), ("root", "search"), ("root",), ("root", "search", "writer"))
_MODELS = {"root": "large", "search": "small", "writer": "large"}
PRICES = {"large": Price(input=2, output=8), "small*": Price(input=0.3, output=2.5, cached_input=0.03)}


def measure(plan: Plan) -> list[Figure]:
    """Reports of the user by everything that they can be listed by. CPU is that of both processes, without the server's."""
    with TemporaryDirectory() as folder:
        figures = _measured(plan, Path(folder), store_url(Path(folder)), "SQLite")
    with TemporaryDirectory() as folder, short_folder() as place, postgres_server(place) as server:
        return figures + _measured(plan, Path(folder), own_tables(server.url), "PostgreSQL")


def _measured(plan: Plan, folder: Path, url: str, store: str) -> list[Figure]:
    write_turns(url, plan.summed)
    figures = []
    with runtime(plan, instant_agent(), folder, session_store=url, prices=PRICES) as rt:
        kinds: list[UsageBy | None] = [None, *get_args(UsageBy)]
        for by in kinds:
            name = f"usage of {plan.summed:,} turns, {'in all' if by is None else f'by {by}'}, {store}"
            wall_ms, cpu_ms = _costs(rt, lambda: rt.usage(USER, by=by))  # noqa: B023
            figures.append(Figure(f"{name}, median", wall_ms, "ms"))
            figures.append(Figure(f"{name}, CPU", cpu_ms, "ms"))
    return figures


def _costs(rt: Runtime, call: Callable[[], object]) -> tuple[float, float]:
    pids = {os.getpid(), rt.statistics().session.pid}
    call()
    before_s = sum(map(cpu_s, pids))
    walls_ms = [timed_ms(call) for _ in range(CALLS)]
    return median(walls_ms), (sum(map(cpu_s, pids)) - before_s) * 1_000 / CALLS


def write_turns(url: str, count: int) -> None:
    """Write turns of a user over a year, of which most have the same agents and models, with the sums that the store keeps."""
    store = SqlSessionStore(url)
    store.open()
    try:
        for first in range(0, count, _COMMIT):
            numbers = range(first, min(first + _COMMIT, count))
            store.commit([write for number in numbers for write in _writes(number, count)])
    finally:
        store.close()


def _writes(number: int, count: int) -> list[Write]:
    key = SessionKey(APP, USER, f"session-{number // _EACH}")
    begun_s = _BEGAN_S + number * _DAYS * _DAY_S / count
    spent = {
        (agent, _MODELS[agent]): Amounts(
            1 + number % 3, number % 2, 1_000 + number % 997, 100, 200 + number % 89, number % 50, 10**6
        )
        for agent in _TEAMS[number % len(_TEAMS)]
    }
    row = TurnRow(
        invocation_id=f"e-{number}",
        status="finished",
        epoch=1,
        first_seq=number % _EACH * 2 + 1,
        opened_seq=number % _EACH * 2 + 1,
        last_seq=number % _EACH * 2 + 2,
        agent="root",
        begun_s=begun_s,
        ended_s=begun_s + 1,
        usage=packed({**spent, ("root", ""): Amounts(us=20_000)}),
        version="9a3f" if number < count // 2 else "c07e",
    )
    put = PutTurn(key, row, begun_s)
    return [CreateSession(key, begun_s), put] if number % _EACH == 0 else [put]
