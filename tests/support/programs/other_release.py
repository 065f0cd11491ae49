"""Another release of raygrove, in a folder of its own: commands that run there, and whose deployments have its code."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.machine.ray_environment import without_ray
from tests.support.servers.postgres_server import short_folder

HOME = Path(__file__).parents[3]
PACKAGES = ("actors", "raygrove", "runtime")


@contextmanager
def plain_ray() -> Iterator[dict[str, str]]:
    """A Ray as it is on clusters, whose processes load what is in the folder of the program that starts them.

    Gives the environment of its programs.
    """
    with short_folder() as folder, closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        other.close()
        environment = without_ray("PYTHONDONT")
        environment["RAY_AUTH_MODE"] = "disabled"
        options = ["--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={folder}/ray", "--num-cpus=4"]
        start = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--include-dashboard=false", *options]
        own = {**environment, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"}
        with subprocess.Popen(start, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                assert process.stdout is not None
                assert any("Ray runtime started" in line for line in process.stdout)
                yield {**environment, "RAY_ADDRESS": f"127.0.0.1:{port}"}
            finally:
                process.terminate()
                assert process.stdout is not None
                process.stdout.read()


class Release:
    """A copy of the packages in a folder. Processes of Ray import from the folder in which their program was started.

    Args:
        folder: where it is.
        environment: of its programs.

    Attributes:
        folder, environment: as given.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment

    @classmethod
    def of_this(cls, folder: Path, mark: str, environment: Mapping[str, str]) -> Release:
        """This code, with a comment that makes it another one."""
        for package in PACKAGES:
            shutil.copytree(HOME / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        with (folder / "raygrove" / "__init__.py").open("a") as file:
            file.write(f"# {mark}\n")
        return cls(folder, environment)

    def add(self, path: str) -> None:
        """Have a file of the tests in the folder, too."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HOME / path, self.folder / path)

    def run(self, *arguments: str, tries: int = 5) -> str:
        """What a command prints. It has to succeed, but for a Ray that is too busy to be joined: that is tried again."""
        done = self._done(*arguments)
        if "cannot be joined" in done.stderr and tries > 1:
            return self.run(*arguments, tries=tries - 1)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def code(self, *arguments: str) -> int:
        """The exit code of a command."""
        return self._done(*arguments).returncode

    def _done(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "raygrove", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )

    def started(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        """A program of the folder that runs."""
        command, pipe = [sys.executable, "-m", module, *arguments], subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=self.environment, cwd=self.folder)
