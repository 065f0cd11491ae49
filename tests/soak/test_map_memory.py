"""A map over a generator: the memory of its program does not grow with the number of inputs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.messages.config import MIB
from actors.testing import PatternModel
from runtime.settings import Settings
from tests.support.machine.process_use import MB, use_of
from tests.support.runtimes import Deploy

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
