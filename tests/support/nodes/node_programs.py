"""Programs with a cluster of several nodes of their own: how to run them and read their results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder with a short path that every account may enter: PostgreSQL keeps its socket there, and may not run as root."""
    made = Path(tempfile.mkdtemp(prefix="raygrove-nodes-", dir="/tmp"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def run_program(program: str, *arguments: object, timeout_s: float) -> tuple[list[str], str]:
    """Run `tests.support.<program>_program`. Returns the lines that it prints after `RESULT`, and the end of its log."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    command = [sys.executable, "-m", f"tests.support.{program}_program", *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s)
    return [line.removeprefix("RESULT ") for line in done.stdout.splitlines() if line.startswith("RESULT ")], done.stderr[-3000:]


Reason = Literal["PREEMPTION", "IDLE_TERMINATION"]


def drain(address: str, node_id: str, reason: Reason, within_s: float) -> None:
    """Announce that a node ends. Ray starts nothing there from now on; to end it is left to the caller.

    Args:
        address: of the cluster's control service.
        within_s: when it ends.
    """
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated.autoscaler_pb2 import DrainNodeReason  # type: ignore[attr-defined]

    deadline_ms = int((time.time() + within_s) * 1_000)
    number = DrainNodeReason.Value(f"DRAIN_NODE_REASON_{reason}")
    is_accepted, refusal = GcsClient(address=address).drain_node(node_id, number, "a test", deadline_ms)
    assert is_accepted, refusal
