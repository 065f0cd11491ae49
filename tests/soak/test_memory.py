"""What a turn in a conversation of 100,000 events takes of memory, and what a map over a generator of 100,000 inputs does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console

from actors import LlmAgent
from actors.messages.config import MIB
from actors.messages.event import USER
from actors.testing import PatternModel
from runtime.settings import Settings
from tests.benchmarks.workloads import APP, ROOT, SENTENCE, write_history
from tests.support.machine.process_use import MB, Sample, sample, table, use_of
from tests.support.runtimes import Deploy

EVENTS = 100_000


async def _samples(deploy: Deploy, root: LlmAgent) -> list[Sample]:
    """Before a turn in the long session, after one, and after ten."""
    async with deploy(root, app_name=APP, settings=Settings()) as rt:
        samples: list[Sample] = []
        for turns, session_id in ((1, "short"), (1, "long"), (9, "long")):
            for _ in range(turns):
                assert (await rt.run(user_id=USER, session_id=session_id, message=SENTENCE)).text == "ok"
            samples.append(await sample(rt, len(samples)))
        return samples


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("include", ["default", "none"])
def test_a_long_session_is_served_from_a_bounded_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], include: Literal["default", "none"]
) -> None:
    write_history(tmp_path, {"long": EVENTS})
    root = LlmAgent(name=ROOT, model=PatternModel([], default="ok"), include_contents=include)
    samples = asyncio.run(_samples(Deploy("ray", tmp_path), root))
    with capsys.disabled():
        Console(width=120).print(f'include_contents="{include}":', table(samples))
    before, first, last = (each.of for each in samples)
    assert last["Session actor"].memory - before["Session actor"].memory < 40 * MB
    agent = f"agent {ROOT}"
    assert last[agent].memory - first[agent].memory < 10 * MB
    if include == "none":
        assert last[agent].memory - before[agent].memory < 40 * MB


INPUTS = 100_000
EVERY = 10_000
FULL = 40_000
"""After so many, caches and pools are full."""

SETTINGS = Settings(max_cache_bytes=4 * MIB)
"""So little room that it is soon taken."""

MOST_MB = 8
"""How much the program may have grown since then: 60,000 inputs take 1 to 2 MB in the table that numbers equal ones."""


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_a_map_over_a_hundred_thousand_inputs_stays_within_its_memory(tmp_path: Path) -> None:
    root = LlmAgent(name="echo", model=PatternModel([], default="yes"))
    samples_mb: list[float] = []
    with Deploy("local", tmp_path)(root, memory_store=None, settings=SETTINGS) as rt:
        for done, result in enumerate(rt.map(_lines(), concurrency=100), start=1):
            assert result.text == "yes"
            if done % EVERY == 0:
                samples_mb.append(use_of(os.getpid()).memory / MB)
                print(f"{done:,} inputs, {samples_mb[-1]:.1f} MB", flush=True)
    assert len(samples_mb) == INPUTS // EVERY
    assert max(samples_mb) - samples_mb[FULL // EVERY - 1] < MOST_MB, samples_mb


def _lines() -> Iterator[str]:
    return (f"line {number}" for number in range(INPUTS))
