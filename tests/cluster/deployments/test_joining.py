"""A program joins a Ray of which it has only the address, as README says; or says soon what is missing."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.support.app_folders import HELLO, write
from tests.support.machine.ray_environment import without_ray
from tests.support.servers.postgres_server import short_folder


class Head(msgspec.Struct):
    """A Ray of its own: its address, the environment of programs that have its token, and its first process."""

    address: str
    environment: dict[str, str]
    folder: Path
    pid: int

    def run(self, what: str, *addresses: str, **environment: str) -> list[str]:
        """Run a program. Returns the lines that it prints."""
        command = [sys.executable, "-m", "tests.support.programs.joining_program", what, *addresses]
        settings = {**self.environment, **environment}
        done = subprocess.run(command, cwd=self.folder, env=settings, capture_output=True, text=True, timeout=100, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    def raygrove(self, *arguments: str, **environment: str) -> tuple[str, str]:
        """Run a command. Returns what it writes to its output and its standard error."""
        command = [str(Path(sys.executable).with_name("raygrove")), *arguments]
        settings = {**self.environment, "RAY_ADDRESS": self.address, **environment}
        done = subprocess.run(command, cwd=self.folder, env=settings, capture_output=True, text=True, timeout=100, check=False)
        return done.stdout, done.stderr


def free_port() -> int:
    """A port that no other process listens at."""
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        return int(other.getsockname()[1])


@contextmanager
def started(mode: str) -> Iterator[Head]:
    """A Ray of its own, in a home that has a token, with RAY_AUTH_MODE set for the cluster only."""
    # Ray has sockets in its folder, whose paths may not be long.
    with short_folder() as folder:
        environment = without_ray()
        environment |= {"HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[3])}
        address = f"127.0.0.1:{free_port()}"
        ray = str(Path(sys.executable).with_name("ray"))
        with_mode = {**environment, "RAY_AUTH_MODE": mode, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"}
        token = [ray, "get-auth-token", "--generate"]
        subprocess.run(token, env={**with_mode, "RAY_AUTH_MODE": "token"}, check=True, capture_output=True, timeout=60)
        # Ray has made the token such that all may read it.
        (folder / ".ray").chmod(0o700)
        (private := folder / "p").mkdir(0o700)
        options = ["--node-ip-address=127.0.0.1", f"--port={address.partition(':')[2]}", f"--temp-dir={private}/ray"]
        start = [ray, "start", "--head", "--block", *options, "--include-dashboard=false", "--num-cpus=2"]
        with subprocess.Popen(start, env=with_mode, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            assert any("Ray runtime started" in line for line in process.stdout)
            yield Head(address, environment, folder, process.pid)
            process.terminate()
            process.stdout.read()


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


@pytest.mark.full
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


@pytest.mark.full
def test_a_program_that_has_a_token_uses_a_cluster_that_wants_none() -> None:
    with started("disabled") as head:
        (address,) = head.run("start", head.address)
        assert head.run("join", address) == ["hello True", "True"]
