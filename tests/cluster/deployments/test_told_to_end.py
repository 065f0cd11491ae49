"""A driver that gets SIGTERM or Ctrl-C takes its local Ray with it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.settings import Settings
from tests.support.nodes.node_programs import open_folder, run_program

DRIVER = """
import signal
from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime

with Runtime(LlmAgent(name="greeter", model=PatternModel([("", "hello")])), app_name="end", session_store="sqlite://") as rt:
    try:
        print(rt.run(user_id="ada", session_id="s1", message="hi").result().text, flush=True)
        signal.pause()
    finally:
        print("leaving", flush=True)
"""


@pytest.mark.full
def test_sigterm_leaves_the_with_block_and_stops_every_process(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    command = [sys.executable, "-c", DRIVER]
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as driver,
    ):
        assert driver.stdout is not None
        assert driver.stdout.readline() == "hello\n"
        started = {pid: os.pidfd_open(pid) for pid in _descendants(driver.pid)}
        assert started
        commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in started]
        assert any("raylet" in command for command in commands)
        # Processes of Ray that a program of one machine does not need, and would wait for.
        assert Settings().local_ray == "plain" or not any(
            name in command for command in commands for name in ("autoscaler", "dashboard/dashboard.py")
        )
        driver.send_signal(signal.SIGTERM)
        assert driver.stdout.read() == "leaving\n"
        assert driver.wait(timeout=30) == signal.SIGTERM
    # A process's descriptor can be read from when it has ended.
    left = [pid for pid, descriptor in started.items() if not select.select([descriptor], [], [], 10)[0]]
    for descriptor in started.values():
        os.close(descriptor)
    assert left == []
    assert "SIGTERM received" not in (tmp_path / "errors").read_text()


def _descendants(pid: int) -> list[int]:
    children = [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
    return [each for child in children for each in (child, *_descendants(child))]


@pytest.mark.full
@pytest.mark.timeout(100)
def test_a_start_that_is_interrupted_ends_before_ray_is_closed() -> None:
    # Ray is closed when no thread uses it any more, since that would crash the process.
    with open_folder() as folder:
        told, log = run_program("programs.interrupted", folder, timeout_s=90)
    assert told == ["still connected True", "interrupted"], log
