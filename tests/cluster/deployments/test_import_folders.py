"""Processes of a deployment import from where its program does, whatever that has put on `sys.path`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.app_folders import write

SHOP = '''
    def look_up(order: str) -> str:
        """Look an order up."""
        return f"{order} is late"
'''

MAIN = """
    import os, site, sys
    ADD
    from raygrove import LlmAgent, Runtime
    from actors.testing import PatternModel
    from shop import look_up

    model = PatternModel([("tool:look_up", "It is late."), ("order", {"call": "look_up", "args": {"order": "42"}})])
    with Runtime(LlmAgent(name="desk", model=model, tools=[look_up]), app_name="folders", session_store="sqlite://") as rt:
        print(rt.run(user_id="ada", session_id="s1", message="my order").result().text)
"""

WAYS = {
    "relative": "sys.path.append('../src')",
    "absolute, before all others": "sys.path.insert(0, os.path.abspath('../src'))",
    "a folder of packages": "site.addsitedir('../src')",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sampled(3)
def test_a_module_of_a_folder_that_the_program_has_added_is_there(
    local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    write(tmp_path / "src", {"shop.py": SHOP})
    write(tmp_path / "scripts", {"main.py": MAIN.replace("ADD", WAYS[way])})
    monkeypatch.setenv("RAY_ADDRESS", local_ray)
    ran = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path / "scripts", capture_output=True, text=True, timeout=100, check=False
    )
    assert (ran.stdout, ran.returncode) == ("It is late.\n", 0), ran.stderr
