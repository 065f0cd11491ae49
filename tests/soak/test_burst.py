"""Ten thousand users who all begin to talk in the same moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import LlmAgent
from tests.benchmarks.burst import burst
from tests.benchmarks.sessions import DelayedModel
from tests.support.runtimes import Deploy

CONVERSATIONS = 10_000
MODEL_S = 10.0


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("local_ray")
async def test_ten_thousand_conversations_that_begin_at_once_all_get_their_answers(tmp_path: Path) -> None:
    async with Deploy("ray", tmp_path)(LlmAgent(name="root", model=DelayedModel(MODEL_S))) as rt:
        done = await burst(rt, CONVERSATIONS)
    assert (len(done.latencies_ms), done.failures) == (CONVERSATIONS, {})
    assert set(done.cpu_s) == {"driver", "Session actor", "Runner", "agent root"}, "a process was lost"
