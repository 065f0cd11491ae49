"""How far the processes of a local Ray give way to others on the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runtime.frontends.testing.shared_ray import NICENESS
from runtime.settings import Settings
from tests.support.machine.ray_environment import without_ray

PROGRAM = """
import os
from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime

if __name__ == "__main__":
    with Runtime(LlmAgent(name="root", model=PatternModel([], default="ok")), app_name="nice", engine="ray") as rt:
        rt.run(user_id="ada", session_id="s", message="hi").result()
        seen = rt.statistics()
        for process in (seen.session, seen.runner, seen.agents["root"]):
            print(os.getpriority(os.PRIO_PROCESS, process.pid) - os.getpriority(os.PRIO_PROCESS, 0))
"""


@pytest.mark.full
@pytest.mark.skipif(Settings().local_ray == "plain", reason="a plain Ray has its own")
@pytest.mark.parametrize(("given", "niceness"), [(None, 5), ("2", 2)])
def test_processes_of_a_local_ray_give_way_unless_the_user_says_how_far(given: str | None, niceness: int, tmp_path: Path) -> None:
    environment = without_ray() | {"PYTHONPATH": str(Path(__file__).parents[3])}
    environment.pop(NICENESS, None)
    if given is not None:
        environment[NICENESS] = given
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == 3 * f"{niceness}\n", done.stderr
