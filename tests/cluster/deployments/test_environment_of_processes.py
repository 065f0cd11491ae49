"""Processes of a deployment have its program's environment variables, which programs that join do not have, and `sys.path`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import CallbackContext, Content, LlmAgent, LlmRequest, LlmResponse, Plugin, tool
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.app_folders import write
from tests.support.runtimes import Deploy, run_turn, stored

NAME = "RAYGROVE_TEST_OWN_KEY"


@tool
def near() -> str:
    """Look the key up in the agent's process."""
    return os.environ[NAME]


@tool(num_cpus=1)
def far() -> str:
    """Look the key up in a process of its own."""
    return os.environ[NAME]


class KeyModel:
    """A model that has read its key when it was unpickled."""

    def __init__(self) -> None:
        self.key = ""

    def __getstate__(self) -> dict[str, str]:
        return {}

    def __setstate__(self, state: object) -> None:
        self.key = os.environ[NAME]

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=Content.of_text(f"key {self.key}", role="model"))


class Stamp(Plugin):
    """A plugin, which is called in the Runner's process."""

    async def on_user_message_callback(self, context: CallbackContext, message: Content) -> Content:
        """Append the key to the message."""
        return Content.of_text(f"{message.text} {os.environ[NAME]}")


@pytest.mark.usefixtures("local_ray")
def test_keys_reach_agents_models_tools_and_plugins_and_no_program_that_joins(tmp_path: Path) -> None:
    script = ScriptedModel([{"call": "near"}, {"call": "far"}, {"transfer": "own"}])
    own = LlmAgent(name="own", model=KeyModel())
    root = LlmAgent(name="root", model=script, tools=[near, far], sub_agents=[own])
    settings = Settings(env={NAME: "sesame"})
    with Deploy("ray", tmp_path)(root, settings=settings, plugins=[Stamp(name="stamp")]) as rt:
        events = run_turn(rt, "open")
        told = [response.response.get("result") for event in events for response in event.function_responses()]
        assert told[:2] == ["sesame", "sesame"]
        assert events[-1].text == "key sesame"
        assert stored(rt)[0].text == "open sesame"
        assert "sesame" not in repr(rt.statistics())
        with Runtime.connect("test") as joined:
            info = joined._client.engine._info  # type: ignore[attr-defined]
            assert info.settings.env == {}
    assert NAME not in os.environ


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
