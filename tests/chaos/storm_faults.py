"""Loses and stops the processes of a deployment and of its drivers, one after the other, until it is stopped."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from actors.errors import RaygroveError
from runtime import Runtime

PAUSE_S = (0.5, 1.5)
"""Between two faults."""

STOPPED_S = (1.0, 8.0)
"""How long a stopped process stays so."""

FAULTS = {
    ("agent", "kill"): 50,
    ("agent", "stop"): 18,
    ("runner", "kill"): 8,
    ("runner", "stop"): 5,
    ("session", "kill"): 8,
    ("session", "stop"): 5,
    ("driver", "kill"): 6,
}
"""What happens, and how often for every hundred faults."""


class Fault(msgspec.Struct, frozen=True):
    """One fault: what was lost or stopped, when, and which agents lived in the process.

    An agent that lived nowhere may have moved in just before the fault, so those are named that lived in other processes.
    """

    who: str
    how: str
    at_s: float
    agents: Sequence[str] = ()
    elsewhere: Sequence[str] = ()


class DriverProcess:
    """A driver that is started again whenever it is lost, until all of its turns have ended."""

    def __init__(self, address: str, folder: Path, name: str) -> None:
        self._command = [sys.executable, "-m", "tests.chaos.storm_driver", address, str(folder), name]
        self._log = (folder / f"{name}.log").open("ab")
        self._process = self._started()
        self.is_over = False
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, cwd=Path(__file__).parents[2], stdout=self._log, stderr=self._log)

    def _keep(self) -> None:
        while not self.is_over and self._process.wait() != 0:
            if not self.is_over:
                time.sleep(0.5)
                self._process = self._started()

    def kill(self) -> None:
        """Lose the process; another one goes on."""
        self._process.kill()

    def wait(self, timeout_s: float) -> bool:
        """True when all of its turns have ended within so many seconds."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def end(self) -> None:
        """Lose it for good."""
        self.is_over = True
        self._process.kill()
        self._process.wait()
        self._log.close()


class Faults:
    """Use as a context manager: inside the block faults happen.

    Args:
        rt: a Runtime of the deployment, which is asked where its actors live.
        drivers: of the storm.
        seed: of the random choice.
        most: how many faults there are at most.
    """

    def __init__(self, rt: Runtime, drivers: Sequence[DriverProcess], seed: int, most: float) -> None:
        self._rt = rt
        self._drivers = drivers
        self._random = random.Random(seed)
        self._most = most
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._blow, daemon=True)
        self._stopped: list[threading.Timer] = []
        self.happened: list[Fault] = []

    def __enter__(self) -> Faults:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for timer in self._stopped:
            timer.join()

    def counts(self) -> Counter[str]:
        """How often each kind of fault has happened."""
        return Counter(f"{each.how} {each.who}" for each in self.happened)

    def _blow(self) -> None:
        while len(self.happened) < self._most and not self._over.wait(self._random.uniform(*PAUSE_S)):
            ((who, how),) = self._random.choices(list(FAULTS), list(FAULTS.values()))
            if who == "driver":
                self._random.choice(self._drivers).kill()
                self.happened.append(Fault(who, how, time.time()))
            else:
                # A Runner or a Session actor that cannot be reached has a fault already.
                with suppress(RaygroveError):
                    self._strike(who, how)

    def _strike(self, who: str, how: str) -> None:
        seen = self._rt.statistics()
        pids = {name: each.pid for name, each in seen.agents.items()}
        core = {"session": seen.session.pid, "runner": seen.runner.pid}
        pid = core[who] if who in core else self._random.choice(sorted(pids.values())) if pids else 0
        if not pid:
            return
        agents = [name for name, each in pids.items() if each == pid]
        elsewhere = [name for name, each in pids.items() if each and each != pid]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
            self.happened.append(Fault(who, how, time.time(), agents, elsewhere))
            if how == "stop":
                timer = threading.Timer(self._random.uniform(*STOPPED_S), _go_on, [pid])
                self._stopped = [each for each in self._stopped if each.is_alive()] + [timer]
                timer.start()


def _go_on(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
