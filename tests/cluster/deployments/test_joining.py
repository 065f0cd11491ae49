"""A program joins a Ray of which it has only the address, as README says; or says soon what is missing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.app_folders import HELLO, write
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
