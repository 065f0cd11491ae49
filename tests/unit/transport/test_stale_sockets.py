"""Socket files that killed processes have left behind."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from runtime.transport.endpoint import Endpoint, new_boot
from runtime.transport.io.listening import MAX_TRIED, remove_stale, socket_name
from tests.support.fixtures.direct_fixture import DirectFixture, Recorder, answer
from tests.support.machine.processes import stop

ROOT = Path(__file__).parents[4]


@dataclass(frozen=True)
class Started:
    """A process with a server in it."""

    process: asyncio.subprocess.Process
    endpoint: Endpoint

    async def kill(self) -> None:
        self.process.kill()
        await self.process.communicate()


@pytest.fixture
async def unix() -> AsyncIterator[DirectFixture]:
    fixture = DirectFixture("unix")
    yield fixture
    await fixture.close()


async def start(folder: Path) -> Started:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.programs.direct_server_program",
        str(folder),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    raw = bytes.fromhex((await process.stdout.readline()).decode())
    return Started(process, msgspec.msgpack.decode(raw, type=Endpoint))


def leave_behind(folder: Path, number: int) -> list[Path]:
    """What so many killed processes leave behind."""
    folder.mkdir(mode=0o700, exist_ok=True)
    paths = [folder / socket_name(new_boot()) for _ in range(number)]
    for path in paths:
        os.mknod(path, stat.S_IFSOCK | 0o700)
    return paths


async def test_a_process_removes_the_socket_of_one_that_was_killed(unix: DirectFixture) -> None:
    killed = await start(unix.folder)
    await killed.kill()
    assert [str(path) for path in unix.folder.iterdir()] == [killed.endpoint.path]
    endpoint = await unix.serve(Recorder())
    assert [str(path) for path in unix.folder.iterdir()] == [endpoint.path]


async def test_a_process_that_is_stopped_keeps_its_socket(unix: DirectFixture) -> None:
    stopped = await start(unix.folder)
    stop(stopped.process.pid)
    await unix.serve(Recorder())
    stopped.process.send_signal(signal.SIGCONT)
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
    started = await asyncio.gather(*(start(unix.folder) for _ in range(4)))
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
