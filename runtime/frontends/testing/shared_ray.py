"""One small local Ray for a run of tests: of the process that runs them, or of all processes of a distributed run.

Such a run has a keeper, `python -m runtime.frontends.testing.shared_ray PID FILE`: it writes Ray's address into the file, and
ends with the process PID, which runs the tests. When the keeper is killed, Ray ends as well.
"""

from __future__ import annotations

import os
import select
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


LOOK_S = 0.25
"""How often it looks whether the test run has ended, where the system does not tell."""


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
    command = [sys.executable, "-m", "runtime.frontends.testing.shared_ray", str(run_pid), str(told)]
    with log.open("w") as output:
        # In a session of its own: Ctrl-C is for pytest, which has to close its Runtimes first.
        keeper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    # It outlives this process, and Python warns of processes that it believes to run.
    keeper.returncode = 0


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
