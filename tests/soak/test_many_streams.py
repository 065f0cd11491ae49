"""Five hundred streams of one server while fifty turns a second run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.testing import PatternModel
from tests.benchmarks.figures import percentile
from tests.support.machine.load import is_within
from tests.support.machine.process_use import MB, use_of
from tests.support.runtimes import Deploy
from tests.support.servers.web_load import following, run_turns
from tests.support.servers.web_server import serving_process

STREAMS, SESSIONS = 500, 250
PER_S, SECONDS = 50, 60
WAY_MS = 100
MOST_MB = 10
"""How much the server may grow while the streams run; they carry 60 MB."""


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_events_of_many_streams_come_soon_once_and_in_order_and_the_server_does_not_grow(
    local_ray: str, tmp_path: Path
) -> None:
    root = LlmAgent(name="root", model=PatternModel([], default="x" * 10_000))
    with Deploy("ray", tmp_path)(root, app_name="many"), serving_process("many", local_ray) as (process, url):
        places = [f"/v1/apps/many/sessions/s{number}" for number in range(SESSIONS)]
        turns = [f"{place}/turns?user=ada" for place in places]
        await run_turns(url, turns, per_s=PER_S, seconds=SESSIONS / PER_S)
        ways_ms: list[float] = []
        streams = [f"{places[number % SESSIONS]}/events?user=ada&after_seq=2" for number in range(STREAMS)]
        async with following(url, streams, ways_ms) as followers:
            await run_turns(url, turns, per_s=PER_S, seconds=SECONDS / 4)
            before = use_of(process.pid).memory
            ways_ms.clear()
            await run_turns(url, turns, per_s=PER_S, seconds=SECONDS)
            of_each = 2 * PER_S * (SECONDS + SECONDS // 4) // SESSIONS
            async with asyncio.timeout(SECONDS):
                for each in followers:
                    await each.wait_for(of_each)
            grown = use_of(process.pid).memory - before
        assert [each.seqs for each in followers] == [list(range(3, 3 + of_each))] * STREAMS
        assert grown < MOST_MB * MB, f"{grown / MB:.1f} MB"
        assert is_within(percentile(ways_ms, 99), WAY_MS), f"{percentile(ways_ms, 99):.0f} ms"
