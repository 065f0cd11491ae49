"""Servers in processes of their own, which are stopped, go on, and are killed; and socket files of killed ones."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from runtime.transport.endpoint import Endpoint, new_boot
from runtime.transport.io.calls import ChannelCall, ConnectionLostError, Loss
from runtime.transport.io.listening import MAX_TRIED, remove_stale, socket_name
from tests.support.fixtures.direct_fixture import DEFAULTS, DirectFixture, Recorder, answer, descriptors, until
from tests.support.machine.processes import stop

# On both event loops and on both kinds of socket, but not on all four pairs of them.
on_some_pairs = pytest.mark.sampled(3)

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


async def start(folder: str) -> OtherProcess:
    """A server in another process, on a socket in that folder, or on a port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.programs.direct_server_program", folder, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    raw = bytes.fromhex((await process.stdout.readline()).decode())
    return OtherProcess(process, msgspec.msgpack.decode(raw, type=Endpoint))


@pytest.fixture
async def other(direct: DirectFixture) -> AsyncIterator[OtherProcess]:
    """A server in another process."""
    found = await start(str(direct.folder) if direct.kind == "unix" else "")
    yield found
    await found.kill()


async def replied(call: ChannelCall) -> bytes:
    """The reply of a process that goes on, which may take longer than QUICK waits where the machine is busy."""
    while True:
        with suppress(ConnectionLostError):
            return await call.reply()


@on_some_pairs
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


@on_some_pairs
async def test_a_short_stop_is_not_noticed(direct: DirectFixture, other: OtherProcess) -> None:
    channel = direct.channel(other.endpoint)
    await channel.request(b"before")
    other.stop()
    task = asyncio.create_task(channel.request(b"meanwhile"))
    await asyncio.sleep(0)
    other.go_on()
    assert await task == b"re: meanwhile"
    assert channel.reconnects == 0


@on_some_pairs
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


@pytest.fixture
async def unix() -> AsyncIterator[DirectFixture]:
    fixture = DirectFixture("unix")
    yield fixture
    await fixture.close()


def leave_behind(folder: Path, number: int) -> list[Path]:
    """What so many killed processes leave behind."""
    folder.mkdir(mode=0o700, exist_ok=True)
    paths = [folder / socket_name(new_boot()) for _ in range(number)]
    for path in paths:
        os.mknod(path, stat.S_IFSOCK | 0o700)
    return paths


async def test_a_process_removes_the_socket_of_one_that_was_killed(unix: DirectFixture) -> None:
    killed = await start(str(unix.folder))
    await killed.kill()
    assert [str(path) for path in unix.folder.iterdir()] == [killed.endpoint.path]
    endpoint = await unix.serve(Recorder())
    assert [str(path) for path in unix.folder.iterdir()] == [endpoint.path]


async def test_a_process_that_is_stopped_keeps_its_socket(unix: DirectFixture) -> None:
    stopped = await start(str(unix.folder))
    stopped.stop()
    await unix.serve(Recorder())
    stopped.go_on()
    assert await unix.channel(stopped.endpoint).request(b"hi") == answer(b"hi")
    await stopped.kill()


async def test_a_process_that_has_bound_its_socket_and_does_not_listen_yet_keeps_it(unix: DirectFixture) -> None:
    unix.folder.mkdir(mode=0o700)
    path = unix.folder / socket_name(new_boot())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
        bound.bind(str(path))
        await unix.serve(Recorder())
        assert path.exists()
        bound.listen()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(path))
    await unix.serve(Recorder())
    assert not path.exists()


@pytest.mark.sampled(2)
async def test_processes_that_begin_at_the_same_time_remove_no_socket_of_each_other(unix: DirectFixture) -> None:
    stale = leave_behind(unix.folder, MAX_TRIED)
    started = await asyncio.gather(*(start(str(unix.folder)) for _ in range(4)))
    replies = await asyncio.gather(*(unix.channel(each.endpoint).request(b"hi") for each in started))
    assert replies == [answer(b"hi")] * 4
    assert not any(path.exists() for path in stale)
    await asyncio.gather(*(each.kill() for each in started))


@pytest.mark.sampled(2)
async def test_each_start_tries_a_bounded_number_and_all_are_removed_in_the_end(unix: DirectFixture) -> None:
    stale = leave_behind(unix.folder, 10_000)
    await unix.serve(Recorder())
    assert sum(path.exists() for path in stale) == len(stale) - MAX_TRIED
    few = stale[: MAX_TRIED // 2]
    for path in set(stale) - set(few):
        path.unlink(missing_ok=True)
    await unix.serve(Recorder())
    assert not any(path.exists() for path in few)


async def test_what_is_no_socket_of_a_process_here_stays(unix: DirectFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    (of_another_name,) = leave_behind(unix.folder, 1)
    of_another_name = of_another_name.rename(unix.folder / "other.sock")
    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "another machine that shares the folder")
        (of_another_machine,) = leave_behind(unix.folder, 1)
    file = unix.folder / socket_name(new_boot())
    file.write_text("hi")
    await unix.serve(Recorder())
    assert of_another_name.exists()
    assert of_another_machine.exists()
    assert file.exists()


async def test_where_the_kernel_does_not_tell_nothing_is_removed(unix: DirectFixture) -> None:
    (stale,) = leave_behind(unix.folder, 1)
    # No process holds this one, so it is no proof.
    (own,) = leave_behind(unix.folder, 1)
    remove_stale(own)
    remove_stale(unix.folder / secrets.token_hex(4))
    assert stale.exists()
