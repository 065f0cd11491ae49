"""Environments of other projects, each created from a lock file when first needed, so that ours needs none of their packages."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

FOLDER = Path(".venv-peers")
LOCKS = Path(__file__).parent / "locks"


class Environment:
    """A virtual environment that holds what `locks/<name>.lock` says, and nothing else.

    Args:
        name: of the lock file. `locks/<name>.in` says what it is made of; `make lock` brings the one in line with the other.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = LOCKS / f"{name}.lock"
        self._folder = FOLDER / name

    def make(self) -> None:
        """Make the environment if it is not there, or its lock has changed.

        Raises:
            subprocess.CalledProcessError: what is in the lock cannot be installed.
        """
        # A stamp that is called after the lock's checksum, as that of .venv: another lock means another environment.
        stamp = self._folder / f"ready-{zlib.crc32(self._lock.read_bytes())}"
        if stamp.exists():
            return
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self._folder)], check=True)
        pip = [str(self._folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--require-hashes", "--requirement", str(self._lock)], check=True)
        stamp.touch()

    def run(self, module: str, *arguments: str) -> str:
        """Run a module of this project in the environment.

        Returns:
            What the module printed.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        command = [str(self._folder / "bin" / "python"), "-m", module, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
