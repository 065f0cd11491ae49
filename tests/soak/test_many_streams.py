"""Five hundred streams of one server while fifty turns a second run. `make test-full` has fifty, for a few seconds."""

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

PER_S = 50
LONGEST_S = 60
"""How long it may take until the last events have come."""

WAY_MS = 100
MOST_MB = 10
"""How much the server may grow while the streams run; they carry 60 MB."""


async def follow(address: str, folder: Path, streams: int, seconds: float) -> tuple[float, list[float]]:
    """Follow sessions, two streams each, while turns run in them, and check that each stream has all events once and in order.

    Returns:
        The MB that the server has grown, and the way of each event in milliseconds.
    """
    sessions = streams // 2
    root = LlmAgent(name="root", model=PatternModel([], default="x" * 10_000))
    with Deploy("ray", folder)(root, app_name="many"), serving_process("many", address) as (process, url):
        places = [f"/v1/apps/many/sessions/s{number}" for number in range(sessions)]
        turns = [f"{place}/turns?user=ada" for place in places]
        await run_turns(url, turns, per_s=PER_S, seconds=sessions / PER_S)
        ways_ms: list[float] = []
        asked = [f"{places[number % sessions]}/events?user=ada&after_seq=2" for number in range(streams)]
        async with following(url, asked, ways_ms) as followers:
            await run_turns(url, turns, per_s=PER_S, seconds=seconds / 4)
            before = use_of(process.pid).memory
            ways_ms.clear()
            await run_turns(url, turns, per_s=PER_S, seconds=seconds)
            of_each = int(2 * PER_S * (seconds + seconds / 4) // sessions)
            async with asyncio.timeout(LONGEST_S):
                for each in followers:
                    await each.wait_for(of_each)
            grown_mb = (use_of(process.pid).memory - before) / MB
    assert [each.seqs for each in followers] == [list(range(3, 3 + of_each))] * streams
    return grown_mb, ways_ms


@pytest.mark.full
async def test_events_of_fifty_streams_come_once_and_in_order(local_ray: str, tmp_path: Path) -> None:
    _, ways_ms = await follow(local_ray, tmp_path, 50, 4)
    assert ways_ms


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_events_of_many_streams_come_soon_once_and_in_order_and_the_server_does_not_grow(
    local_ray: str, tmp_path: Path
) -> None:
    grown_mb, ways_ms = await follow(local_ray, tmp_path, 500, 60)
    assert grown_mb < MOST_MB, f"{grown_mb:.1f} MB"
    assert is_within(percentile(ways_ms, 99), WAY_MS), f"{percentile(ways_ms, 99):.0f} ms"
