"""The pytest plugin on Ray: one for all processes of a run, which ends with it, and what is left behind in other processes."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.frontends.testing.leaks import processes
from tests.plugin.conftest import INI, Run

pytest_plugins = ["pytester"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "testing"

pytestmark = pytest.mark.timeout(240)

PATIENCE_S = 30.0
"""How long processes may take to end on a busy machine."""

SHARED = """
import os
import pytest
from actors import LlmAgent
from runtime.testing import Said, trajectory

pytestmark = pytest.mark.raygrove(engines="ray")

@pytest.fixture
def root_agent(scripted_model):
    return LlmAgent(name="a", model=scripted_model)

def test_side_by_side(runtime, script, raygrove_ray):
    script(raygrove_ray)
    assert runtime.address == raygrove_ray
    trajectory(runtime.run(user_id="ada", session_id="s1", message="x")).assert_exactly(Said("a", raygrove_ray))
    with open(os.environ["TOLD"], "a") as told:
        print(raygrove_ray, os.environ["RAYGROVE_NAMESPACE"], os.getpid(), file=told)
"""

LEAVING = """
import pytest
from actors import LlmAgent
from actors.testing import PatternModel

pytestmark = pytest.mark.raygrove(engines="ray")

class Host:
    "Stands for the process of a Runtime that was not closed."

def test_leaves_an_actor(start_runtime):
    import ray
    start_runtime(LlmAgent(name="a", model=PatternModel([])))
    ray.remote(Host).options(name="test/host/9", namespace="raygrove", lifetime="detached").remote()
"""


@pytest.mark.full
def test_the_example_passes_on_both_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAYGROVE_NAMESPACE", "RAYGROVE_TEST_RAY", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function"]
    done = subprocess.run(
        [*command, "-o", "raygrove_engines=local ray"], cwd=EXAMPLE, capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "10 passed" in done.stdout


@pytest.mark.soak
def test_processes_of_a_run_share_a_ray_that_ends_with_them(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    run(SHARED, "-n", "2", "--dist", "each").assert_outcomes(passed=2)
    told = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    addresses, namespaces, pids = map(set, zip(*told, strict=True))
    assert (len(addresses), namespaces, len(pids)) == (1, {"raygrove-gw0", "raygrove-gw1"}, 2)
    assert_ended(addresses.pop())


@pytest.mark.soak
def test_a_ray_of_a_run_ends_when_the_run_is_killed(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAYGROVE_NAMESPACE", "RAYGROVE_TEST_RAY"):
        monkeypatch.delenv(name, raising=False)
    pytester.makefile(".ini", pytest=INI)
    told = tmp_path / "told"
    code = f"import time\ndef test_x(raygrove_ray):\n    open({str(told)!r}, 'w').write(raygrove_ray)\n    time.sleep(60)\n"
    pytester.makepyfile(test_project=code)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1"]
    running = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not told.exists() or not told.read_text():
        assert running.poll() is None, "the run ended before its Ray had started"
        time.sleep(0.05)
    address = told.read_text()
    assert of_ray(address)
    running.kill()
    running.wait()
    assert_ended(address)


@pytest.mark.full
def test_what_is_left_on_ray_is_named(run: Run) -> None:
    done = run(LEAVING)
    done.assert_outcomes(passed=1, errors=1)
    done.stdout.re_match_lines([r"E +actor test/host/9 in namespace 'raygrove'"])


def of_ray(address: str) -> list[str]:
    """The processes of a Ray that know its address, and the port on which its control service listens."""
    host, _, port = address.rpartition(":")
    found = [str(process) for process in processes() if f"--gcs-address={address}" in process.command]
    with suppress(ConnectionError), socket.create_connection((host, int(port))):
        found.append(f"port {port}")
    return found


def assert_ended(address: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while left := of_ray(address):
        assert time.monotonic() < until_s, left
        time.sleep(0.05)
