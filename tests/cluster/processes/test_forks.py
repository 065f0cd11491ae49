"""Forks of a program that uses a Runtime: all that they ask for is refused, they end as they will, and harm nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOUND = """\
a fork ended with 3
a fork ended with 4
a fork ended with 0
a process ended with 0
hello
1
"""


@pytest.mark.full
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_fork_is_refused_everything_and_leaves_the_program_unharmed(engine: str, tmp_path: Path) -> None:
    # A Ray of its own: that is what a fork could shut down.
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    command = [sys.executable, "-m", "tests.support.programs.forking_program", engine]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert (done.stdout, done.returncode) == (FOUND, 0), done.stderr
