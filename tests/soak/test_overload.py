"""Two minutes of three times as many turns as a deployment bears: what it takes it answers, and the rest it refuses at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.benchmarks.figures import percentile
from tests.support.load.http_clients import Tally
from tests.support.load.overload import Load, RuntimeLoad, by_turns, clients_of, looking_agent
from tests.support.machine.load import is_within
from tests.support.machine.process_use import MB, sample
from tests.support.machine.terminal import Tell
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import serving_process

TIMES, SECONDS = 3, 120
BEARS_S = 10
WAITING = 200
"""Turns that may wait: about as many as are served in a tenth of a second."""

REFUSED_MS = 50
AGAIN = 0.8
"""The share that a deployment bears at once when the load is over, of what one does that had no such load, asked by turns. It is
0.84 to 1.05: the one has more sessions in its store by then, and its caches are full."""

CACHE_MB = 16
"""What each process may keep of sessions: so little that the first half fills it."""

MOST_MB = 20
"""By how much a process may grow in the second half of the time."""


@contextmanager
def _asked(way: str, rt: Runtime, app: str, address: str) -> Iterator[Load]:
    if way != "http":
        yield RuntimeLoad(rt)
        return
    with serving_process(app, address) as (_, url), clients_of(url, app) as clients:
        yield clients


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["local", "ray", "http"])
async def test_what_is_taken_is_answered_the_rest_is_refused_at_once_and_afterwards_all_is_as_before(
    way: str, local_ray: str, tmp_path: Path, tell: Tell
) -> None:
    settings = Settings(max_waiting_turns=WAITING, max_cache_bytes=CACHE_MB * MB)
    usual, much = Tally(), Tally()
    async with AsyncExitStack() as stack:

        async def deployed(app: str) -> tuple[Runtime, Load]:
            deploy = Deploy("local" if way == "local" else "ray", tmp_path)
            store = f"sqlite:///{_store(tmp_path, app)}"
            rt = await stack.enter_async_context(deploy(looking_agent(), app_name=app, session_store=store, settings=settings))
            load = stack.enter_context(_asked(way, rt, app, local_ray))
            await load.bears_per_s(BEARS_S / 2, usual)
            return rt, load

        (rt, load), (_, spared) = await deployed("overloaded"), await deployed("spared")
        bears = await load.bears_per_s(BEARS_S, usual)
        await load.overload(TIMES * bears, SECONDS / 2, much)
        half = await sample(rt, much.answered)
        await load.overload(TIMES * bears, SECONDS / 2, much)
        whole = await sample(rt, much.answered)
        again, bears_now = await by_turns(BEARS_S, usual, load, spared)
    grown = {name: (use.memory - half.of[name].memory) / MB for name, use in whole.of.items() if name in half.of}
    tell(f"{way}: bears {bears:.0f} turns/s; {TIMES} times as many for {SECONDS} s: {much}")
    tell(f"afterwards {again:.0f} turns/s; beside it, one that had no such load, {bears_now:.0f}")
    tell(f"grown by MB: { {name: round(mb, 1) for name, mb in grown.items()} }")
    assert (usual.errors, usual.refused_ms, much.errors) == ({}, [], {})
    assert sum(_finished(_store(tmp_path, app)) for app in ("overloaded", "spared")) == usual.answered + much.answered
    assert len(much.refused_ms) > much.answered / 2
    assert min(much.waits_s) > 0
    assert max(grown.values()) < MOST_MB, grown
    assert is_within(percentile(much.refused_ms, 99), REFUSED_MS), much
    assert again > AGAIN * bears_now


def _store(folder: Path, app: str) -> Path:
    return folder / f"{app}.db"


def _finished(store: Path) -> int:
    """The turns that are stored; each is finished."""
    with sqlite3.connect(store) as database:
        found = dict(database.execute("select status, count(*) from raygrove_turns group by status").fetchall())
    assert set(found) == {"finished"}, found
    return int(found["finished"])
