"""`raygrove stop --drain`, as an operator uses it: from a terminal, while other programs speak to the deployment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from actors.errors import DeploymentNotFoundError, DrainingError, RequestError
from runtime.driver.runtime import Runtime
from runtime.frontends.console import cli
from tests.support.app_folders import fresh_imports, write
from tests.support.programs.terminal_program import CTRL_C, TerminalProgram

NAME = "drained"

AGENTS = """
    import asyncio
    from pathlib import Path

    from actors import LlmAgent, tool
    from actors.testing import PatternModel


    @tool
    async def wait() -> str:
        \"\"\"Wait until the file is there.\"\"\"
        while not Path(GO_ON).exists():
            await asyncio.sleep(0.05)
        return "went on"


    model = PatternModel([("tool:", "Done."), ("wait", {"call": "wait"})], default="Hi.")
    root_agent = LlmAgent(name="desk", model=model, tools=[wait])
"""


@pytest.fixture
def folder(local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the code of the deployment is, and the file for which its turns wait."""
    write(tmp_path / "code" / NAME, {"agent.py": AGENTS.replace("GO_ON", repr(str(tmp_path / "go on")))})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_ADDRESS", local_ray)
    monkeypatch.setenv("RAYGROVE_MAX_LIVE_AGENTS", "1")
    with fresh_imports():
        yield tmp_path
        invoke("stop", NAME)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def started() -> None:
    assert invoke("start", f"code/{NAME}").exit_code == 0


def waiting_turn(rt: Runtime) -> str:
    """The id of a turn in the middle of a call."""
    turn = rt.run(user_id="ada", session_id="s1", message="wait", on_leave="continue")
    next(event for event in turn for call in event.function_calls() if call.name == "wait")
    return turn.invocation_id


@pytest.mark.full
def test_a_deployment_is_drained_interrupted_and_drained_again_and_the_next_one_goes_on(folder: Path) -> None:
    started()
    with Runtime.connect(NAME) as rt:
        invocation = waiting_turn(rt)
        with TerminalProgram(["stop", NAME, "--drain"], folder) as stop:
            stop.until(f"{NAME} takes no new turns: 1 running, 0 waiting in line\n")
            while not rt.statistics().runner.counts["draining"]:
                pass
            (row,) = [json.loads(line) for line in invoke("ps", "--json").stdout.splitlines() if f'"{NAME}"' in line]
            assert (row["draining"], row["open"]) == (True, 1)
            (line,) = [line for line in invoke("ps").stdout.splitlines() if line.startswith(NAME)]
            assert "draining" in line.split("\t")
            assert json.loads(invoke("top", NAME, "--interval", "0.1", "--json").stdout)["draining"] is True
            with pytest.raises(DrainingError):
                rt.run(user_id="ada", session_id="s2", message="hi").result()
            stop.type(CTRL_C)
            stop.until(f"{NAME} goes on, and takes new turns again\n")
            assert stop.exit_code() == 130
        assert rt.run(user_id="ada", session_id="s2", message="hi").result().text == "Hi."
        ended = invoke("stop", NAME, "--drain", "--within", "1s")
        assert (ended.exit_code, ended.stdout) == (3, f"{NAME} has stopped: turns: 1 left open\n")
        assert f"raygrove attach {NAME} s1 {invocation} --user ada" in ended.stderr
        with pytest.raises(DeploymentNotFoundError):
            rt.run(user_id="ada", session_id="s2", message="hi").result()
        resumed = invoke("start", f"code/{NAME}", "--resume")
        assert (resumed.exit_code, resumed.stdout.splitlines()[1]) == (0, "1 open turn goes on")
        # The program that has joined goes on with the next deployment, too.
        turn = rt.attach(user_id="ada", session_id="s1", invocation_id=invocation)
        (folder / "go on").touch()
        assert turn.result().text == "Done."
    result = invoke("stop", NAME, "--drain", "--within", "10m", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["name"], told["stopped"], told["left"], told["paused"]) == (0, NAME, True, [], 0)
    assert isinstance(invoke("stop", NAME, "--drain").exception, DeploymentNotFoundError)


def test_a_time_without_a_drain_is_refused(folder: Path) -> None:
    refused = invoke("stop", NAME, "--within", "10m")
    assert isinstance(refused.exception, RequestError)
    assert "--within goes with --drain" in str(refused.exception)
    assert invoke("stop", NAME, "--drain", "--within", "soon").exit_code == 2


@pytest.mark.full
def test_who_follows_the_logs_is_told_when_the_deployment_has_stopped(folder: Path) -> None:
    started()
    with TerminalProgram(["logs", NAME, "-f"], folder) as following:
        with Runtime.connect(NAME) as rt:
            rt.run(user_id="ada", session_id="s1", message="hi").result()
        assert invoke("stop", NAME).exit_code == 0
        following.until(f"error: app '{NAME}' is not deployed")
        assert following.exit_code() == 1
