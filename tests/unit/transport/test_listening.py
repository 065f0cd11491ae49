"""Where servers listen."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from actors.errors import ClusterError
from runtime.transport.io.listening import listen_tcp, listen_unix, port_range
from runtime.transport.io.server import ACCEPTED_AT_ONCE, Server
from tests.support.fixtures.direct_fixture import NODE, SECRET, DirectFixture, Recorder

HOST = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    """A port that is used."""
    with socket.create_server((HOST, 0)) as server:
        yield server


def test_ports_are_written_as_a_range() -> None:
    assert port_range("20000-20100") == range(20000, 20101)
    assert port_range(" 20000 ") == range(20000, 20001)
    assert list(port_range("")) == [0]


@pytest.mark.parametrize("text", ["20100-20000", "0", "1-70000", "a-b", "20000:20100", "-", "1-2-3"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match=r"direct_ports='.*' is no range of ports: write it as '20000-20100'"):
        port_range(text)


def test_the_first_free_port_is_taken(taken: socket.socket) -> None:
    port = taken.getsockname()[1]
    with listen_tcp(HOST, f"{port}-{port + 20}") as found:
        assert port < found.getsockname()[1] <= port + 20


def test_a_range_that_is_used_up_is_named_with_its_setting(taken: socket.socket) -> None:
    port = taken.getsockname()[1]
    with pytest.raises(ClusterError, match=rf"no port of direct_ports='{port}-{port}' is free on {HOST}: set direct_ports"):
        listen_tcp(HOST, f"{port}-{port}")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"cannot listen on 192\.0\.2\.1"):
        listen_tcp("192.0.2.1", "")
    with pytest.raises(ClusterError, match=r"cannot listen on no\.such\.host\.invalid"):
        listen_tcp("no.such.host.invalid", "")


def test_only_its_owner_may_enter_the_folder_of_a_socket(direct: DirectFixture) -> None:
    with listen_unix(direct.folder, "s"):
        assert stat.S_IMODE(direct.folder.stat().st_mode) == 0o700
    with listen_unix(direct.folder, "other"):
        pass


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_may_enter_is_refused(direct: DirectFixture, mode: int) -> None:
    direct.folder.mkdir()
    direct.folder.chmod(mode)
    with pytest.raises(ClusterError, match="is open to others"):
        listen_unix(direct.folder, "s")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(direct: DirectFixture) -> None:
    direct.folder.mkdir(mode=0o700)
    os.chown(direct.folder, 12345, 12345)
    with pytest.raises(ClusterError, match="belongs to user 12345, and this process is of user 0"):
        listen_unix(direct.folder, "s")


def test_a_link_to_a_folder_is_refused(direct: DirectFixture) -> None:
    target = direct.folder.parent / "target"
    target.mkdir(mode=0o700)
    direct.folder.symlink_to(target)
    with pytest.raises(ClusterError, match="is no folder"):
        listen_unix(direct.folder, "s")


def test_a_path_that_is_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="is too long for a Unix socket, which may have 107 bytes"):
        listen_unix(tmp_path / ("x" * 100), "s")


async def test_a_server_that_cannot_listen_leaves_nothing_behind(direct: DirectFixture, taken: socket.socket) -> None:
    port = taken.getsockname()[1]
    server = Server(Recorder(), SECRET, NODE, direct.folder, HOST, str(port))
    with pytest.raises(ClusterError, match="direct_ports"):
        await server.start()
    assert list(direct.folder.iterdir()) == []


async def test_a_server_that_is_closed_takes_its_socket_along(direct: DirectFixture) -> None:
    server = Server(Recorder(), SECRET, NODE, direct.folder, HOST)
    endpoint = await server.start()
    assert [str(path) for path in direct.folder.iterdir()] == [endpoint.path]
    await server.close()
    assert list(direct.folder.iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((endpoint.host, endpoint.port))


async def test_connections_that_come_at_once_are_taken_by_few_passes_of_the_loop(direct: DirectFixture) -> None:
    """libuv takes one a pass for each handle: the last of many would wait for as many passes."""
    server = direct.server(Recorder())
    endpoint = await server.start()
    family, address = (
        (socket.AF_UNIX, endpoint.path) if direct.kind == "unix" else (socket.AF_INET, (endpoint.host, endpoint.port))
    )
    with ExitStack() as stack:
        for _ in range(4 * ACCEPTED_AT_ONCE):
            stack.enter_context(client := socket.socket(family))
            # The kernel does this alone: the loop has no pass meanwhile.
            client.connect(address)
        passes = 0
        while server.statistics().unproven < 4 * ACCEPTED_AT_ONCE:
            passes += 1
            await asyncio.sleep(0)
        assert passes < 2 * ACCEPTED_AT_ONCE
