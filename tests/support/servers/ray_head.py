"""A Ray that is started by a command, as on a cluster, for programs that join it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from tests.support.machine.processes import processes_with
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

    def pids(self, name: str) -> list[int]:
        """Its processes of that name, such as `gcs_server`."""
        mark = f"HOME={self.folder}"
        return [pid for pid, command in processes_with(mark).items() if f"/{name} " in command]

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
