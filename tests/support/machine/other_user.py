"""What another user of this machine can do: code that runs as a user without any rights."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = 65534
"""The user "nobody", that no test runs as."""

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be a second user of the machine")

_BECOME = f"""
import encodings.idna, itertools, json, os, socket, sys
from pathlib import Path
def become_other():
    os.setgroups([]); os.setgid({USER}); os.setuid({USER})
"""


@contextmanager
def folder_of_all() -> Iterator[Path]:
    """A folder that every user may enter and change, as the system's one for temporary files without its sticky bit."""
    with tempfile.TemporaryDirectory(prefix="o-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def program(code: str, *arguments: str) -> list[str]:
    """The command of a program. It begins as this user, since others may not be able to read Python, and calls `become_other`."""
    return [sys.executable, "-c", _BECOME + code, *arguments]


def run_as_other(code: str, *arguments: str, given: str = "") -> str:
    """Run code as the other user, with a text as its standard input, and return all that it prints."""
    command = program(f"become_other()\n{code}", *arguments)
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
