"""A program that gets a Ctrl-C while its Runtime starts its actors on Ray, as a person who waits for it may send.

Run by test_interrupted_start.py in a process of its own, which Ray would end with.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import ray

from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime
from runtime.cluster.deployment.engine import RayEngine

SLOW_S = 1.0


def main(folder: Path) -> None:
    """Print how the start has ended."""
    start_runner = RayEngine._start_runner

    def interrupted(self: RayEngine, *arguments: Any) -> Any:
        connected = ray.get_runtime_context().get_job_id()
        os.kill(os.getpid(), signal.SIGINT)
        until_s = time.monotonic() + SLOW_S
        while time.monotonic() < until_s:
            # What Ray is asked for meanwhile, on a machine that is busy.
            ray.put("x" * 200_000)
        print("RESULT still connected", ray.get_runtime_context().get_job_id() == connected)
        return start_runner(self, *arguments)

    RayEngine._start_runner = interrupted  # type: ignore[assignment, method-assign]
    root = LlmAgent(name="root", model=PatternModel([]))
    try:
        Runtime(root, app_name="interrupted", session_store=f"sqlite:///{folder}/sessions.db").start()
    except KeyboardInterrupt:
        print("RESULT interrupted")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
