"""Two servers of one deployment: a stream that is cut goes on at the other one, also when a server is killed."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from runtime.driver.runtime import Runtime
from runtime.web import app_for
from tests.support.agents.web_agents import Counting
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import TIMEOUT_S, frames, serving, serving_process

NUMBERS = 400
CUTS = 50


@pytest.mark.timeout(120)
async def test_every_event_comes_once_and_in_order_however_often_a_stream_is_cut(
    local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYGROVE_MAX_LIVE_AGENTS", "1")
    chance = random.Random(7)
    with ExitStack() as stack:
        deployed = stack.enter_context(Deploy("ray", tmp_path)(Counting(name="counting", upto=NUMBERS), app_name="counting"))
        killed, first = stack.enter_context(serving_process("counting", local_ray))
        joined = stack.enter_context(Runtime.connect("counting", address=local_ray))
        second = stack.enter_context(serving(app_for(joined)))
        client = httpx2.AsyncClient(timeout=TIMEOUT_S)
        turns = "/v1/apps/counting/sessions/s/turns"
        begun = await client.post(
            f"{first}{turns}?user=ada",
            json={"message": "count", "config": {"streaming": "sse"}},
            headers={"Prefer": "respond-async"},
        )
        place = begun.headers["location"].replace("?", "/events?")
        got: list[tuple[str, str]] = []
        kinds: list[str] = []
        servers, cuts = [first, second], 0
        while "end" not in kinds:
            if cuts == CUTS // 2:
                killed.kill()
            server = chance.choice(servers)
            last = {"Last-Event-ID": got[-1][0]} if got else {}
            # At last the stream is read to its end.
            left = chance.randint(1, 12) if cuts < CUTS else 10 * NUMBERS
            try:
                async with client.stream("GET", server + place, headers={"Accept": "text/event-stream", **last}) as response:
                    assert response.status_code == 200
                    async for frame in frames(response):
                        kinds.append(frame.kind)
                        if frame.id:
                            got.append((frame.id, frame.data["content"]["parts"][0]["text"]))
                        left -= 1
                        if not left:
                            break
            except httpx2.TransportError:
                assert cuts >= CUTS // 2
                servers = [second]
            cuts += 1
        await client.aclose()
        assert got == [(str(number + 1), f"number {number}") for number in range(1, NUMBERS + 1)]
        assert cuts > CUTS
        assert servers == [second]
        assert {"event", "partial", "end"} == set(kinds)
        assert deployed.turns.get("ada", "s", begun.json()["invocationId"]).state == "finished"
