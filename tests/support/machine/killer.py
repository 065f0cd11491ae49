"""Kills the processes of a deployment, as a machine without memory does it."""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import suppress

from actors.errors import RaygroveError
from runtime import Runtime

CORES = 0.2
"""The share of Runners and Session actors among what is killed."""


class Killer:
    """Use as a context manager: inside the block one process of a deployment after the other is killed.

    Args:
        rt: a Runtime of the deployment, which is asked where its actors live.
        pause_s: between two kills, on average.
        seed: of the random choice.

    Attributes:
        kills: how many processes were killed.
    """

    def __init__(self, rt: Runtime, pause_s: float, seed: int) -> None:
        self._rt = rt
        self._pause_s = pause_s
        self._random = random.Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._kill)
        self.kills = 0

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _kill(self) -> None:
        while not self._is_over.wait(self._pause_s * self._random.uniform(0.5, 1.5)):
            # What cannot be reached is lost already.
            with suppress(RaygroveError, ProcessLookupError):
                self._kill_one()

    def _kill_one(self) -> None:
        figures = self._rt.statistics()
        pids = [agent.pid for agent in figures.agents.values() if agent.pid]
        if self._random.random() < CORES:
            pids = [self._random.choice([figures.runner.pid, figures.session.pid])]
        if pids:
            os.kill(self._random.choice(pids), signal.SIGKILL)
            self.kills += 1
