"""Clients that read slowly, or not at all, cost the server a bounded buffer, and nobody else anything."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from actors import Content, CustomAgent, Event, InvocationContext
from runtime.frontends.web import streams
from runtime.frontends.web.connections import ConnectionLimits
from runtime.web import app_for
from tests.support.machine.process_use import HAS_HELD, MB, held_here
from tests.support.runtimes import Deploy
from tests.support.servers.web_load import address_of, follow_request
from tests.support.servers.web_server import TIMEOUT_S, frames, serving

LIVE, LATE = 20, 20
EVENTS, EVENT_BYTES = 300, 100_000
ROOM = 1.5 * MB
"""Of one that reads nothing: 1 MB of events, a frame, and what its connection holds. Clients share events that have come while
all were up to date. One that was behind has read its events from the log, and holds them alone."""


class Verbose(CustomAgent):
    """Says 30 MB."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for number in range(EVENTS):
            yield Event(content=Content.of_text(f"{number} " + "x" * EVENT_BYTES, role="model"))


def stalled(url: str, path: str) -> socket.socket:
    """A client that asks for a stream, and never reads."""
    client = socket.create_connection(address_of(url))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.sendall(follow_request(path))
    return client


@pytest.mark.skipif(not HAS_HELD, reason="the C library does not say what it has given out")
async def test_clients_that_read_nothing_hold_little_and_slow_nobody_and_are_left(
    tmp_path: Path,
) -> None:
    with Deploy("local", tmp_path)(Verbose(name="verbose"), app_name="desk") as rt, serving(app_for(rt)) as url:
        session = "/v1/apps/desk/sessions/s"
        rt.sessions.create("ada", "s")
        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            assert open_streams(await client.get("/metrics")) == 0
            before = held_here()
            clients = [stalled(url, f"{session}/events?user=ada") for _ in range(LIVE)]
            try:
                turn = await client.post(f"{session}/turns?user=ada", json={"message": "go"}, headers={"Prefer": "respond-async"})
                place = turn.headers["location"].replace("?", "/events?")
                wanted = [*(str(number + 2) for number in range(EVENTS)), ""]
                assert await ids_of_frames(client, place) == wanted
                clients += [stalled(url, f"{session}/events?user=ada") for _ in range(LATE)]
                # The other clients get as much meanwhile as they take.
                assert await ids_of_frames(client, place) == wanted
                held = held_here() - before
                assert held < (LIVE + LATE) * ROOM, f"{held / MB:.0f} MB"
                assert open_streams(await client.get("/metrics")) == LIVE + LATE
            finally:
                for each in clients:
                    each.close()


async def ids_of_frames(client: httpx2.AsyncClient, place: str) -> list[str]:
    """The ids of all frames of a stream that ends."""
    async with client.stream("GET", place, headers={"Accept": "text/event-stream"}) as stream:
        return [frame.id async for frame in frames(stream)]


def open_streams(metrics: httpx2.Response) -> int:
    return int(next(line.split()[1] for line in metrics.text.splitlines() if line.startswith("raygrove_web_streams ")))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("by_connection", [True, False])
async def test_a_client_that_reads_nothing_for_too_long_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_connection: bool
) -> None:
    limits = ConnectionLimits(unread_timeout_s=0.2) if by_connection else None
    if not by_connection:
        monkeypatch.setattr(streams, "SEND_S", 0.2)
    with Deploy("local", tmp_path)(Verbose(name="verbose"), app_name="desk") as rt, serving(app_for(rt), limits) as url:
        await rt.run(user_id="ada", session_id="s", message="go")
        with stalled(url, "/v1/apps/desk/sessions/s/events?user=ada"):
            async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client, asyncio.timeout(TIMEOUT_S):
                while open_streams(await client.get("/metrics")) == 0:
                    continue
                while open_streams(await client.get("/metrics")):
                    continue
