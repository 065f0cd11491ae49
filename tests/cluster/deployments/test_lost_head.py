"""The control service of Ray is lost: programs say so within seconds, and can leave before Ray ends them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.machine.processes import kill
from tests.support.servers.ray_head import started

RECONNECT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "50"}
"""So that Ray ends the program after 50 s, instead of 60."""


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    """Keep `ray start --block` from ending all processes of its node as soon as one of them has ended."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


# It waits for a minute.
@pytest.mark.soak
def test_turns_go_on_and_then_an_error_comes_before_ray_ends_the_program() -> None:
    with started("token") as head:
        head.run("start", head.address)
        command = [sys.executable, "-m", "tests.support.programs.joining_program", "lose", head.address]
        environment = {**head.environment, **RECONNECT}
        with subprocess.Popen(
            command, cwd=head.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "joined 200\n"
            with _standing_still(head.pid):
                kill(*head.pids("gcs_server"))
                out, log = program.communicate(timeout=90)
    # Ray may take longer to be left than it waits for its control service, and end the program with exit code 1 then.
    assert out, log
    said, status, fault, name, error = out.rstrip().split(" | ")
    assert (said, status, name) == ("hello", "503", "ActorLostError")
    assert "the control service of Ray is away" in fault
    port = head.address.partition(":")[2]
    assert re.search(rf"the control service of the Ray at \S+:{port} is away, and Ray ends programs that wait for it", error)
    assert re.search(rf"the control service of the Ray at \S+:{port} cannot be reached", log)
