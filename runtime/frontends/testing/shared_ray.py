"""One small local Ray for a run of tests: of the process that runs them, or of all processes of a distributed run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.errors import ClusterError
from runtime.settings import PREFIX, Settings

ADDRESS = "RAYGROVE_TEST_RAY"
"""Environment variable: where a Ray is that the tests are to use, instead of one that is started for them."""

NICENESS = "RAY_worker_niceness"
"""Environment variable: how far Ray's workers give way to other processes."""

CPUS = 2
"""Logical CPUs of that Ray, where the setting `num_cpus` says no other number: it prepares a process for each."""

START_S = 90.0
"""How long its start may take, on a machine on which all processes of a distributed run begin at once."""

POLL_S = 0.05
"""How often a process looks whether another one has started Ray."""


@contextmanager
def own_ray(address: str | None = None) -> Iterator[str]:
    """A Ray for this process: the one at `address`, that of RAYGROVE_TEST_RAY, or one that ends with the block.

    Ray's processes end by themselves when this process is killed.
    """
    # Imported here: a run on the local engine loads no Ray.
    from runtime.cluster.deployment.connection import RayConnection

    # Ray lets its workers give way to other processes: on a machine that is busy they would hardly run at all.
    os.environ.setdefault(NICENESS, "0")
    given = Settings()
    settings = given.model_copy(update={"num_cpus": given.num_cpus or CPUS, "log_to_driver": False})
    connection = RayConnection(settings, address or os.environ.get(ADDRESS) or "local")
    connection.open()
    try:
        yield str(connection.address)
    finally:
        connection.close()


@contextmanager
def ray_of_run(folder: Path, run_pid: int, worker: str) -> Iterator[str]:
    """A Ray for a process of a distributed run. The first process that asks for it starts it, apart from itself, for all of them.

    Each process has a namespace of its own, so that apps of the same name can run side by side.

    Args:
        folder: of this run. The first process makes it.
        run_pid: the process that started them. Ray ends when that one has ended.
    """
    os.environ.setdefault(f"{PREFIX}NAMESPACE", f"raygrove-{worker}")
    address = os.environ.get(ADDRESS) or _address(folder, run_pid)
    with own_ray(address) as found:
        yield found


def _address(folder: Path, run_pid: int) -> str:
    told, log = folder / "address", folder / "log"
    try:
        # The process that makes the folder starts Ray; the others wait.
        folder.mkdir()
    except FileExistsError:
        pass
    else:
        _start_keeper(run_pid, told, log)
    until_s = time.monotonic() + START_S
    while not told.exists():
        if time.monotonic() > until_s:
            said = log.read_text()[-2_000:] if log.exists() else "nothing"
            raise ClusterError(f"the Ray of this test run did not start within {START_S:g} s. It said: {said}")
        time.sleep(POLL_S)
    return told.read_text()


def _start_keeper(run_pid: int, told: Path, log: Path) -> None:
    command = [sys.executable, "-m", "runtime.frontends.testing.ray_keeper", str(run_pid), str(told)]
    with log.open("w") as output:
        # In a session of its own: Ctrl-C is for pytest, which has to close its Runtimes first.
        keeper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    # It outlives this process, and Python warns of processes that it believes to run.
    keeper.returncode = 0
