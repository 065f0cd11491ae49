"""Thousands of users who begin to talk in the same moment, or in the same minute."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from actors import LlmAgent
from tests.benchmarks.burst import burst
from tests.benchmarks.figures import percentile
from tests.benchmarks.sessions import DelayedModel
from tests.support.machine.process_use import MB, sample
from tests.support.machine.terminal import Tell
from tests.support.runtimes import Deploy

CONVERSATIONS = 10_000
MODEL_S = 10.0

MANY, MANY_S, SLOW_S = 20_000, 60.0, 30.0
"""Conversations that begin within so many seconds, and how long the model takes for each: half of them wait for it at once."""

MOST_MB = 2_000
"""Memory of all processes together."""


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("local_ray")
async def test_ten_thousand_conversations_that_begin_at_once_all_get_their_answers(tmp_path: Path) -> None:
    async with Deploy("ray", tmp_path)(LlmAgent(name="root", model=DelayedModel(MODEL_S))) as rt:
        done = await burst(rt, CONVERSATIONS)
    assert (len(done.latencies_ms), done.failures) == (CONVERSATIONS, {})
    assert set(done.cpu_s) == {"driver", "Session actor", "Runner", "agent root"}, "a process was lost"


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("local_ray")
async def test_twenty_thousand_in_a_minute_all_get_their_answers_within_two_gigabytes(tmp_path: Path, tell: Tell) -> None:
    used_mb: list[float] = []
    async with Deploy("ray", tmp_path)(LlmAgent(name="root", model=DelayedModel(SLOW_S))) as rt:

        async def watch() -> None:
            while True:
                used_mb.append(sum(use.memory for use in (await sample(rt, 0)).of.values()) / MB)
                await asyncio.sleep(2.0)

        watching = asyncio.create_task(watch())
        done = await burst(rt, MANY, MANY_S)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    latest_ms = percentile(done.latencies_ms, 99)
    tell(f"{len(done.latencies_ms):,} answered, p99 {latest_ms / 1_000:.1f} s, at most {max(used_mb):.0f} MB")
    assert (len(done.latencies_ms), done.failures) == (MANY, {})
    assert max(used_mb) < MOST_MB
