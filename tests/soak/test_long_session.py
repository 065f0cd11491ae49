"""A conversation of 100,000 events: the memory that a turn in it takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console

from actors import LlmAgent
from actors.messages.event import USER
from actors.testing import PatternModel
from runtime.settings import Settings
from tests.benchmarks.workloads import APP, ROOT, SENTENCE, write_history
from tests.support.machine.process_use import MB, Sample, sample, table
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
