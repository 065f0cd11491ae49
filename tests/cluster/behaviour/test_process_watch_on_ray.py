"""A process whose event loop stands still, or whose memory grows, says so, and other users' turns go on elsewhere."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import Content, FunctionCall, FunctionTool, LlmAgent, LlmRequest, LlmResponse, Part, Placement
from actors.errors import AgentLostError
from tests.support.polling import until
from tests.support.runtimes import Deploy

pytestmark = pytest.mark.usefixtures("local_ray")

BLOCK = 32 * 2**20


class Asked:
    """Calls the tool that the message names, or says hello."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        text = request.contents[0].text
        part = Part(text="hello")
        if text in ("block", "eat") and not any(request.contents[-1].function_responses()):
            part = Part(function_call=FunctionCall(name=text, args={}))
        yield LlmResponse(content=Content(role="model", parts=[part]))


class Hungry:
    """Tools that hold up their process, and fill its memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def block(self) -> str:
        """Hold up the event loop until a file is there."""
        with (self._folder / "runs").open("a") as file:
            file.write("block\n")
        while not (self._folder / "open").exists():
            time.sleep(0.01)  # noqa: ASYNC251
        return "blocked"

    def eat(self) -> str:
        """Fill the memory."""
        with (self._folder / "runs").open("a") as file:
            file.write("eat\n")
        eaten = []
        while True:
            eaten.append(bytearray(BLOCK))
            time.sleep(0.01)

    def runs(self) -> list[str]:
        return (self._folder / "runs").read_text().split()


def test_a_loop_that_stands_still_is_told_of_and_other_users_get_another_process(tmp_path: Path) -> None:
    hungry = Hungry(tmp_path)
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=Asked(), tools=[FunctionTool(hungry.block)])) as rt:
        blocked = rt.run(user_id="ada", session_id="s", message="block")
        until(lambda: [event for event in rt.deployment_events() if event.kind == "process replaced"])
        told = [event.text for event in rt.deployment_events() if event.kind == "process replaced"]
        assert "its event loop stands still" in told[-1]
        assert rt.run(user_id="bob", session_id="s", message="hi").result().text == "hello"
        (tmp_path / "open").touch()
        assert blocked.result().text == "hello"
        assert hungry.runs() == ["block"]


@pytest.mark.full
def test_a_placements_memory_is_a_limit_and_a_tool_that_eats_more_is_given_up(tmp_path: Path) -> None:
    hungry = Hungry(tmp_path)
    eater = LlmAgent(name="eater", model=Asked(), tools=[FunctionTool(hungry.eat)], placement=Placement(memory=400 * 2**20))
    with Deploy("ray", tmp_path)(eater) as rt:
        with pytest.raises(AgentLostError):
            rt.run(user_id="ada", session_id="s", message="eat").result()
        assert 3 <= len(hungry.runs()) <= 4
        assert rt.run(user_id="bob", session_id="s", message="hi").result().text == "hello"
        ended = [event.text for event in rt.deployment_events() if "ends itself" in event.text]
        assert "Placement(memory=" in ended[-1]
