"""A server in a process of its own, which is stopped, goes on, and is killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from runtime.transport.endpoint import Endpoint
from runtime.transport.io.calls import ChannelCall, ConnectionLostError, Loss
from tests.support.fixtures.direct_fixture import DEFAULTS, DirectFixture, descriptors, until
from tests.support.machine.processes import stop

# Each test on both event loops and on both kinds of socket, but not on all four pairs of them.
pytestmark = pytest.mark.sampled(3)

ROOT = Path(__file__).parents[4]

QUICK = replace(DEFAULTS, connect_s=0.3, lost_s=0.3)


class OtherProcess:
    """The program, as it runs."""

    def __init__(self, process: asyncio.subprocess.Process, endpoint: Endpoint) -> None:
        self._process = process
        self.endpoint = endpoint

    async def line(self) -> str:
        """What it prints next."""
        assert self._process.stdout is not None
        async with asyncio.timeout(20):
            return (await self._process.stdout.readline()).decode().strip()

    def stop(self) -> None:
        """Return when nothing of it runs."""
        stop(self._process.pid)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()


@pytest.fixture
async def other(direct: DirectFixture) -> AsyncIterator[OtherProcess]:
    """A server in another process."""
    folder = str(direct.folder) if direct.kind == "unix" else ""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.programs.direct_server_program", folder, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    raw = bytes.fromhex((await process.stdout.readline()).decode())
    found = OtherProcess(process, msgspec.msgpack.decode(raw, type=Endpoint))
    yield found
    await found.kill()


async def replied(call: ChannelCall) -> bytes:
    """The reply of a process that goes on, which may take longer than QUICK waits where the machine is busy."""
    while True:
        with suppress(ConnectionLostError):
            return await call.reply()


async def test_a_process_that_is_stopped_goes_on_with_the_same_requests(direct: DirectFixture, other: OtherProcess) -> None:
    channel = direct.channel(other.endpoint, QUICK)
    await channel.request(b"before")
    open_before = descriptors()
    other.stop()
    with channel.call(b"meanwhile") as call, channel.call(b"another") as another:
        waits = asyncio.ensure_future(another.reply())
        for _ in range(3):
            # The connection is lost, and the new one is not answered. The caller asks Ray, which says that the process lives.
            with pytest.raises(ConnectionLostError) as caught:
                await call.reply()
            assert (caught.value.loss, caught.value.was_sent) == (Loss.UNREACHABLE, True)
        with pytest.raises(ConnectionLostError):
            await waits
        # No attempt has left its socket behind.
        await until(lambda: descriptors() <= open_before)
        other.go_on()
        async with asyncio.timeout(20):
            assert await replied(call) == b"re: meanwhile"
            assert await replied(another) == b"re: another"
        with channel.call(b"after") as after:
            assert await replied(after) == b"re: after"
    assert sorted([await other.line() for _ in range(4)]) == ["after", "another", "before", "meanwhile"]


async def test_a_short_stop_is_not_noticed(direct: DirectFixture, other: OtherProcess) -> None:
    channel = direct.channel(other.endpoint)
    await channel.request(b"before")
    other.stop()
    task = asyncio.create_task(channel.request(b"meanwhile"))
    await asyncio.sleep(0)
    other.go_on()
    assert await task == b"re: meanwhile"
    assert channel.reconnects == 0


async def test_the_death_of_a_process_is_noticed_at_once(direct: DirectFixture, other: OtherProcess) -> None:
    channel = direct.channel(other.endpoint)
    await channel.request(b"before")
    other.stop()
    task = asyncio.create_task(channel.request(b"meanwhile"))
    await asyncio.sleep(0)
    await other.kill()
    async with asyncio.timeout(2):
        with pytest.raises(ConnectionLostError) as caught:
            await task
    assert (caught.value.loss, caught.value.was_sent) == (Loss.REFUSED, True)
