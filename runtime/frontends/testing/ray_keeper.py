"""Keeps the Ray of a distributed test run: `python -m runtime.frontends.testing.ray_keeper PID FILE`.

It writes Ray's address into the file, and ends with the process PID, which runs the tests. When this process is killed, Ray ends
as well.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

from runtime.frontends.testing.shared_ray import own_ray

LOOK_S = 0.25
"""How often it looks whether the test run has ended, where the system does not tell."""


def keep(run_pid: int, told: Path) -> None:
    """Start Ray, and stop it when the process has ended."""
    with own_ray() as address:
        written = told.with_suffix(".new")
        written.write_text(address)
        # Readers find the whole address or none.
        written.rename(told)
        wait_for_end(run_pid)


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended, whether or not its parent has noticed."""
    try:
        if sys.platform == "linux":
            ended = os.pidfd_open(pid)
            select.select([ended], [], [])
            os.close(ended)
        else:
            while True:
                os.kill(pid, 0)
                time.sleep(LOOK_S)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    keep(int(sys.argv[1]), Path(sys.argv[2]))
