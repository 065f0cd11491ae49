"""Processes as the leak check sees them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from runtime.frontends.testing.leaks import LeakCheck, children, with_descendants
from runtime.frontends.testing.shared_ray import wait_for_end


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        yield child
        child.kill()


def test_a_process_belongs_to_the_one_that_started_it(sleeping: subprocess.Popen[bytes]) -> None:
    found = {process.pid: owner for process, owner in with_descendants({os.getpid(): "of test/runner"})}
    assert found[os.getpid()] == "of test/runner"
    assert found[sleeping.pid] == "started by the process of test/runner"
    assert os.getppid() not in found


def test_a_process_that_has_ended_is_none(sleeping: subprocess.Popen[bytes]) -> None:
    assert sleeping.pid in [child.pid for child in children(os.getpid())]
    sleeping.kill()
    # The parent has not looked yet, so the system still knows it.
    os.waitid(os.P_PID, sleeping.pid, os.WEXITED | os.WNOWAIT)
    assert sleeping.pid not in [child.pid for child in children(os.getpid())]


def test_what_was_there_before_is_no_leak(sleeping: subprocess.Popen[bytes]) -> None:
    LeakCheck().check()


def test_the_keeper_of_ray_sees_that_the_run_has_ended_before_its_parent_does(sleeping: subprocess.Popen[bytes]) -> None:
    sleeping.kill()
    wait_for_end(sleeping.pid)
    assert sleeping.poll() is not None
    wait_for_end(sleeping.pid)
