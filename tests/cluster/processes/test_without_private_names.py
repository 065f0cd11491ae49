"""A deployment works on a Ray that has none of the private names any more: in the program, and in the processes of actors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SITE = """
import sys
from importlib.util import find_spec


class WithoutPrivateNames:
    def find_spec(self, name, path=None, target=None):
        if name != "runtime.cluster.ray.names" or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_take_away(module):
            execute(module)

            def find(self):
                raise AttributeError(self.path)

            module.PrivateName.find = find

        spec.loader.exec_module = execute_and_take_away
        return spec


sys.meta_path.insert(0, WithoutPrivateNames())
"""
"""Takes the names away in every Python process that is started with it."""

PROGRAM = """
import logging
from actors import LlmAgent, tool
from actors.testing import PatternModel
from runtime import Runtime, Settings
from runtime.cluster.deployments import named_actors, ray_address
from runtime.cluster.ray import nodes

logging.basicConfig()


@tool
def folder() -> str:
    '''The folder of Ray's logs.'''
    return f"{nodes.logs_folder()}"


model = PatternModel([("^look", {"call": "folder", "args": {}})], default="hello")
root = LlmAgent(name="root", model=model, tools=[folder])
settings = Settings(num_cpus=2, data_dir=DATA_DIR)
with Runtime(root, app_name="plain", engine="ray", settings=settings) as rt:
    for message in ("hi", "look"):
        print(rt.run(user_id="ada", session_id="s1", message=message).result().text)
    print(sorted(each.part for each in named_actors(ray_address(rt.address)) if each.part in ("session", "runner")))
"""


@pytest.mark.full
def test_a_ray_without_private_names_runs_agents(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    project = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{project}", "RAYGROVE_LOCAL_RAY": "light"}
    program = PROGRAM.replace("DATA_DIR", repr(str(tmp_path / "data")))
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.splitlines() == ["hello", '{"result":"None"}', "['runner', 'session']"], done.stderr
    assert done.returncode == 0
    assert "a local Ray starts as Ray has it" in done.stderr
