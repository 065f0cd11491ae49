"""Environment variables of a deployment: every process that runs users' code has them, and programs that join do not."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import CallbackContext, Content, LlmAgent, LlmRequest, LlmResponse, Plugin, tool
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import Deploy, run_turn, stored

pytestmark = pytest.mark.usefixtures("local_ray")

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
