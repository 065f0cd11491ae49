"""One user's tool ends its process: the turns of others go on, and its own ends after a few attempts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import ray

from actors import Content, FunctionCall, FunctionTool, LlmAgent, LlmRequest, LlmResponse, Part
from actors.errors import AgentLostError
from actors.rules.suspects import MAX_ATTEMPTS, MAX_LOSSES, MAX_TOGETHER
from runtime.settings import Settings
from tests.support.polling import until
from tests.support.runtimes import Deploy

pytestmark = pytest.mark.usefixtures("local_ray")

USERS = 5

POLL_S = 0.02


class Patient:
    """Waits until the file `open` is there, and notes that it does; or calls the tool that the message names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        text = request.contents[0].text
        if text.startswith("wait"):
            (self._folder / f"waits {text} {os.getpid()}").touch()
            while not (self._folder / "open").exists():  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
            yield LlmResponse(content=Content.of_text("waited", role="model"))
        else:
            call = FunctionCall(name="crash", args={"along": text.split()[1:]})
            yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call)]))


class Crash:
    """A tool that ends its process, and others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._namespace = Settings().namespace

    def crash(self, along: list[str]) -> str:
        """End the process, and those of actors."""
        with (self._folder / "crashes").open("a") as file:
            file.write(f"{os.getpid()}\n")
        for name in along:
            ray.kill(ray.get_actor(name, namespace=self._namespace), no_restart=False)
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    def processes(self) -> list[str]:
        """Those that it has ended."""
        return (self._folder / "crashes").read_text().split()


def waiting(folder: Path) -> int:
    return len({each.name.split()[2] for each in folder.glob("waits *")})


@pytest.mark.parametrize("most", [8, 1])
def test_turns_that_wait_for_their_model_go_on_when_a_tool_ends_their_process(tmp_path: Path, most: int) -> None:
    crash = Crash(tmp_path)
    root = LlmAgent(name="root", model=Patient(tmp_path), tools=[FunctionTool(crash.crash)])
    with Deploy("ray", tmp_path)(root, settings=Settings(max_live_agents=most)) as rt:
        turns = [rt.run(user_id=f"u{number}", session_id="s", message=f"wait {number}") for number in range(USERS)]
        until(lambda: waiting(tmp_path) == USERS)
        with pytest.raises(AgentLostError):
            rt.run(user_id="poison", session_id="s", message="crash").result()
        (tmp_path / "open").touch()
        assert [turn.result().text for turn in turns] == ["waited"] * USERS
        assert len(crash.processes()) == 1 + MAX_LOSSES
        # The first was shared, the others were of their own.
        assert len(set(crash.processes())) == 1 + MAX_LOSSES
        lost = [rt.turns.get(f"u{number}", "s", turn.invocation_id).lost for number, turn in enumerate(turns)]
        assert [len(each) for each in lost] == [1] * USERS


@pytest.mark.full
def test_a_tool_that_takes_the_runner_along_is_given_up_by_its_successors(tmp_path: Path) -> None:
    crash = Crash(tmp_path)
    root = LlmAgent(name="root", model=Patient(tmp_path), tools=[FunctionTool(crash.crash)])
    with Deploy("ray", tmp_path)(root) as rt:
        with pytest.raises(AgentLostError):
            rt.run(user_id="poison", session_id="s", message="crash test/runner").result()
        assert len(crash.processes()) <= MAX_ATTEMPTS + MAX_TOGETHER
        (tmp_path / "open").touch()
        assert rt.run(user_id="ada", session_id="s", message="wait 1").result().text == "waited"
