"""Programs with a cluster of several nodes of their own: how to run them and read their results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
