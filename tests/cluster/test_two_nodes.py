"""A node dies with all actors of a deployment; the store is elsewhere, so nothing of the turn is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.two_nodes import NO_POSTGRES


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path that every account may enter: PostgreSQL keeps its socket there, and may not run as root."""
    made = Path(tempfile.mkdtemp(prefix="raygrove-nodes-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.timeout(200)
def test_a_turn_is_answered_although_the_node_dies_on_which_it_ran(folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    program = [sys.executable, "-m", "tests.cluster.two_nodes", str(folder)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=180)
    if done.returncode == NO_POSTGRES:
        pytest.skip(done.stderr)
    assert [line.removeprefix("TOLD ") for line in done.stdout.splitlines() if line.startswith("TOLD ")] == [
        "said [('first', 'noted'), ('second', 'answered')]",
        "seqs [1, 2, 3, 4, 5, 6, 7]",
        "notes ['once']",
        "moved True",
    ], done.stderr[-3000:]
