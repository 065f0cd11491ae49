"""Nothing grows with the number of turns: memory, open files and threads of every process."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from actors.messages.config import MIB
from runtime.cluster.ray.nodes import logs_folder
from runtime.models.openai.model import OpenAIModel
from runtime.settings import Settings
from tests.support.machine.process_use import MB, RAY_PROGRAMS, Sample, grown, halves, table
from tests.support.runtimes import Deploy
from tests.support.servers.chat_server import ChatServer, chat
from tests.support.soak_load import KillPlan, KillRun, SoakPlan, run_soak, run_with_kills, soak_tree

SETTINGS = Settings(max_cache_bytes=4 * MIB, tool_threads=8)
"""So little room that it is taken, by some 160 sessions of 25 kB or as many views, long before the first quarter is over."""

MOST_MB = 4
"""How much a process may have grown since then. It is not nothing: what Python frees, in small pieces, is not given back."""

MOST_FILES = MOST_THREADS = 4
"""Ray opens a connection now and then, and closes it again."""

MOST_OF_RAY_MB = 10
"""The same of a process of Ray's: its raylet and its control service keep some 60 kB for each worker that was lost."""

PLAN = KillPlan(
    minutes=float(os.environ.get("SOAK_MINUTES", "60")),
    rate=float(os.environ.get("SOAK_RATE", "12")),
    kill_every_s=20.0,
    sample_every_s=15.0,
)
"""Processes are killed for an hour; the variables say it otherwise."""


def files_of_ray() -> int:
    """The files beside Ray's logs on this node."""
    folder = logs_folder()
    assert folder is not None
    return sum(len(names) for _, _, names in os.walk(folder))


async def _soaked(deploy: Deploy, plan: SoakPlan, console: Console) -> list[Sample]:
    async with deploy(soak_tree(), settings=SETTINGS) as rt:
        return await run_soak(rt, plan, lambda sample: console.print(f"{sample.turns:,} turns", style="dim"))


def test_a_soak_runs_and_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = SoakPlan(turns=48, at_once=4, session_turns=6, every=12)
    samples = asyncio.run(_soaked(Deploy("local", tmp_path), plan, Console(quiet=True)))
    assert [each.turns for each in samples] == [12, 24, 36, 48]
    assert all(each.of["driver"].memory > 0 for each in samples)
    assert grown(samples, 12, 48).keys() == {"driver"}
    Console(width=200).print(table(samples))
    assert "driver" in capsys.readouterr().out


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("local_ray")
def test_twenty_thousand_turns_leave_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = SoakPlan(turns=20_000, at_once=64, session_turns=12, every=1_000)
    with capsys.disabled():
        console = Console(width=160)
        samples = asyncio.run(_soaked(Deploy("ray", tmp_path), plan, console))
        console.print(table(samples))
        growth = grown(samples, plan.turns // 4, plan.turns * 3 // 4)
        console.print("grown since the first quarter, in MB:", {name: round(each / MB, 1) for name, each in growth.items()})
    assert len(samples[-1].of) == 9
    assert max(growth.values()) < MOST_MB * MB, growth
    warm, end = next(each for each in samples if each.turns >= plan.turns // 4), samples[-1]
    for name, use in end.of.items():
        assert use.files <= warm.of[name].files + MOST_FILES, name
        assert use.threads <= warm.of[name].threads + MOST_THREADS, name


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_kills_of_an_hour_leave_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Starting a Ray leaves it behind.
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    began_s = time.monotonic()

    def tell(seen: Sample, run: KillRun) -> None:
        files.append(files_of_ray())
        uses = ", ".join(f"{name} {use.memory / MB:.1f} ({use.files}, {use.threads})" for name, use in seen.of.items())
        print(f"{time.monotonic() - began_s:.0f} s, {run.turns:,} turns, {files[-1]} files of Ray: {uses}", flush=True)
        server.requests.clear()

    async def soaked() -> KillRun:
        model = OpenAIModel("of-the-soak", base_url=server.base_url, api_key="none")
        async with Deploy("ray", tmp_path)(soak_tree(model), settings=SETTINGS) as rt:
            return await run_with_kills(rt, PLAN, tell)

    files: list[int] = []
    with capsys.disabled(), ChatServer(lambda _: chat("It depends.")) as server:
        run = asyncio.run(soaked())
        console = Console(width=200)
        console.print(table(run.samples))
        console.print(f"{run.turns:,} turns, {run.kills} kills, {run.deleted:,} sessions deleted, failed: {dict(run.failures)}")
    assert not run.failures
    middle, end = halves(run.samples)
    for name in end.of:
        most_mb = MOST_OF_RAY_MB if name in RAY_PROGRAMS else MOST_MB
        assert end.of[name].memory < middle.of[name].memory + most_mb * MB, name
        assert end.of[name].files <= middle.of[name].files + MOST_FILES, name
        assert end.of[name].threads <= middle.of[name].threads + MOST_THREADS, name
    assert files[-1] <= files[len(files) // 2] + MOST_FILES
