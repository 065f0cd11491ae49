"""Whatever is cut whenever: each request runs once, and each caller gets its reply."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.transport.io.calls import ConnectionLostError
from runtime.transport.io.channel import Channel
from runtime.transport.protocol.frames import MAX_PAYLOAD
from tests.support.fixtures.direct_fixture import DEFAULTS, DirectFixture, Recorder, answer
from tests.support.servers.cutting_proxy import Cut
from tests.support.tries import tries

OPTIONS = replace(DEFAULTS, connect_s=2.0, lost_s=2.0, beat_s=0.5)

places = st.one_of(st.none(), st.integers(0, 300), st.integers(0, 5_000), st.integers(0, 4 * MAX_PAYLOAD))
cuts = st.builds(Cut, up=places, down=places)
sizes = st.one_of(st.integers(0, 200), st.integers(MAX_PAYLOAD - 20, MAX_PAYLOAD + 20), st.just(2 * MAX_PAYLOAD + 1))


async def ask(channel: Channel, raw: bytes) -> bytes:
    """Ask until there is a reply, as a caller does that knows that the process lives."""
    with channel.call(raw) as call:
        while True:
            try:
                return await call.reply()
            except ConnectionLostError as error:
                if error.loss.is_final:
                    raise


async def run(kind: str, cut: list[Cut], requests: list[int], held: set[int], cut_all_after: list[int]) -> None:
    direct = DirectFixture(kind)
    try:
        recorder = Recorder()
        raws = [(b"%d." % number).ljust(size, b".") for number, size in enumerate(requests)]
        gates = {number: recorder.hold(raws[number]) for number in held if number < len(raws)}
        server = direct.server(recorder)
        proxy = await direct.proxy(await server.start(), cut)
        channel = direct.channel(proxy.endpoint, OPTIONS)
        tasks = [asyncio.create_task(ask(channel, raw)) for raw in raws]
        for turns in cut_all_after:
            for _ in range(turns):
                await asyncio.sleep(0)
            proxy.cut_all()
        for gate in gates.values():
            await asyncio.sleep(0)
            gate.set()
        async with asyncio.timeout(30):
            replies = await asyncio.gather(*tasks)
        assert replies == [answer(raw) for raw in raws]
        assert recorder.runs == dict.fromkeys(raws, 1)
        short = [raw for raw in recorder.order if len(raw) < MAX_PAYLOAD - 100]
        assert short == [raw for raw in raws if len(raw) < MAX_PAYLOAD - 100]
    finally:
        await direct.close()
    assert server.statistics().running == server.statistics().kept_bytes == 0


@settings(max_examples=tries(60), suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(["unix", "tcp"]),
    cut=st.lists(cuts, max_size=8),
    requests=st.lists(sizes, min_size=1, max_size=20),
    held=st.sets(st.integers(0, 19)),
    cut_all_after=st.lists(st.integers(0, 60), max_size=4),
    is_uvloop=st.booleans(),
)
def test_each_request_runs_once_and_each_caller_gets_its_reply(
    kind: str, cut: list[Cut], requests: list[int], held: set[int], cut_all_after: list[int], is_uvloop: bool
) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if is_uvloop else asyncio.new_event_loop) as runner:
        runner.run(run(kind, cut, requests, held, cut_all_after))
