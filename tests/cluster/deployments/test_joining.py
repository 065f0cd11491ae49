"""A program joins a Ray of which it has only the address, as README says; or says soon what is missing, or lost later."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.support.app_folders import HELLO, write
from tests.support.machine.processes import kill
from tests.support.servers.ray_head import Head, free_port, started


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with started("token") as head:
        yield head


@pytest.mark.full
def test_one_program_deploys_and_another_one_joins_with_nothing_but_the_address(head: Head) -> None:
    (address,) = head.run("start", head.address)
    assert address.partition(":")[2] == head.address.partition(":")[2]
    assert head.run("join", address) == ["hello True", "True"]


@pytest.mark.full
def test_a_program_that_cannot_join_says_soon_what_is_missing(head: Head) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        mute = f"127.0.0.1:{silent.getsockname()[1]}"
        nowhere = f"127.0.0.1:{free_port()}"
        no_token, unreachable, no_ray = head.run("try", head.address, nowhere, mute, HOME=str(head.folder / "elsewhere"))
    assert no_token.startswith(f"the Ray at {head.address!r} cannot be joined: it wants a token, and there is none in ")
    assert unreachable.startswith(f"no Ray at {nowhere!r} can be used: nothing can be reached there")
    assert no_ray.startswith(f"the Ray at {mute!r} cannot be joined: what listens there has not answered as Ray does within 2 s")
    (wrong,) = head.run("try", head.address, RAY_AUTH_TOKEN="0" * 64)
    assert wrong.startswith(f"the Ray at {head.address!r} cannot be joined: it does not accept the token")


@pytest.mark.soak
def test_commands_that_find_the_token_of_a_ray_write_of_no_refusal(head: Head) -> None:
    write(head.folder / "code" / "greeter", {"agent.py": HELLO})
    assert head.raygrove("start", "code/greeter")[1] == ""
    # Where none is given, Ray itself finds another address of this machine.
    there = ("--address", head.address)
    assert head.raygrove("ps", *there)[1] == f"deployments on the Ray at {head.address}\n"
    assert head.raygrove("run", "greeter", "hi", *there) == ("Hello, my friend!\n", "")
    assert f"at {head.address}, deployments: greeter" in head.raygrove("doctor", *there)[0]
    assert head.raygrove("stop", "greeter", *there)[1] == ""
    _, told = head.raygrove("ps", *there, RAY_AUTH_TOKEN="0" * 64)
    assert told.startswith(f"error: the Ray at {head.address!r} cannot be joined: it does not accept the token")
    assert told.count("\n") == 1


@pytest.mark.soak
def test_a_program_that_has_a_token_uses_a_cluster_that_wants_none() -> None:
    with started("disabled") as head:
        (address,) = head.run("start", head.address)
        assert head.run("join", address) == ["hello True", "True"]


RECONNECT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "50"}
"""So that Ray ends the program after 50 s, instead of 60."""


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    """Keep `ray start --block` from ending all processes of its node as soon as one of them has ended."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


# It waits for a minute.
@pytest.mark.soak
def test_turns_go_on_and_then_an_error_comes_before_ray_ends_the_program() -> None:
    with started("token") as head:
        head.run("start", head.address)
        command = [sys.executable, "-m", "tests.support.programs.joining_program", "lose", head.address]
        environment = {**head.environment, **RECONNECT}
        with subprocess.Popen(
            command, cwd=head.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "joined 200\n"
            with _standing_still(head.pid):
                kill(*head.pids("gcs_server"))
                out, log = program.communicate(timeout=90)
    # Ray may take longer to be left than it waits for its control service, and end the program with exit code 1 then.
    assert out, log
    said, status, fault, name, error = out.rstrip().split(" | ")
    assert (said, status, name) == ("hello", "503", "ActorLostError")
    assert "the control service of Ray is away" in fault
    port = head.address.partition(":")[2]
    assert re.search(rf"the control service of the Ray at \S+:{port} is away, and Ray ends programs that wait for it", error)
    assert re.search(rf"the control service of the Ray at \S+:{port} cannot be reached", log)
