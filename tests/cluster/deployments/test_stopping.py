"""What of a cancelled turn runs in processes of its own is ended there, too."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import FunctionTool, LlmAgent, ParallelAgent, tool
from actors.errors import TurnCancelledError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from tests.support.agents.conversation_tools import forever
from tests.support.machine.load import is_within
from tests.support.runtimes import Deploy, author_texts, run_turn

pytestmark = pytest.mark.sampled(2, of="module")

ENDS_S = 1.0
"""How soon a turn has to end when it is cancelled."""

MARGIN_S = 4.0
"""Allowed on top of that, for a machine that is busy, for example with starting processes."""

PATIENCE_S = 30.0
"""How long Ray may take to end a process."""


class ProcessTools:
    """Tools that write their process id to a pipe and then never return, not even when cancelled."""

    def __init__(self, folder: Path) -> None:
        self.pipe = folder / "pid"

    def _tell(self) -> None:
        self.pipe.write_text(f"{os.getpid()}\n")

    def crunch(self) -> None:
        """Work in a task."""
        self._tell()
        while True:
            time.sleep(60)

    async def stop_the_loop(self) -> None:
        """Hold up all that the agent's process does."""
        self.crunch()

    def wait_until_called(self) -> int:
        """Wait until a tool is called; return its process id."""
        return int(self.pipe.read_text())


def tree(tools: ProcessTools) -> LlmAgent:
    names = ("crunch", "stop_the_loop", "forever")
    calls = PatternModel([*((name, {"call": name}) for name in names), ("late|both", {"transfer": "late"})], default="hello")
    both = PatternModel([], default={"parts": [{"call": "crunch"}, {"call": "forever"}]})
    crunch = tool(num_cpus=1)(tools.crunch)
    return LlmAgent(
        name="root",
        model=calls,
        tools=[crunch, FunctionTool(tools.stop_the_loop), forever],
        sub_agents=[ParallelAgent(name="late", sub_agents=[LlmAgent(name="worker", model=both, tools=[crunch, forever])])],
    )


@pytest.fixture
def tools(tmp_path: Path) -> ProcessTools:
    made = ProcessTools(tmp_path)
    os.mkfifo(made.pipe)
    return made


@pytest.fixture
def rt(local_ray: str, tools: ProcessTools, tmp_path: Path) -> Iterator[Runtime]:
    with Deploy("ray", tmp_path)(tree(tools), app_name="stopping") as rt:
        run_turn(rt, "hi")
        yield rt


def start(rt: Runtime, message: str) -> Turn:
    return rt.run(user_id="ada", session_id="s1", message=message)


def ends_soon(rt: Runtime, turn: Turn) -> None:
    began_s = time.monotonic()
    turn.cancel()
    with pytest.raises(TurnCancelledError, match=turn.invocation_id):
        turn.result()
    assert is_within(time.monotonic() - began_s, ENDS_S + MARGIN_S)
    session = rt.sessions.get("ada", "s1")
    assert session is not None
    of_turn = [event for event in session.events if event.invocation_id == turn.invocation_id]
    calls = [call.id for event in of_turn for call in event.function_calls()]
    assert sorted(response.id or "" for event in of_turn for response in event.function_responses()) == sorted(map(str, calls))
    assert rt.statistics().runner.counts["running"] == 0


def ends(pid: int) -> bool:
    """True when the process has ended, or does so soon."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], PATIENCE_S)[0])
    finally:
        os.close(descriptor)


def test_a_turn_ends_while_the_process_of_an_agent_is_started(rt: Runtime) -> None:
    assert "late" not in rt.statistics().agents
    turn = start(rt, "late")
    events = iter(turn)
    assert any(next(events).function_calls())
    assert next(events).actions.transfer_to_agent == "late"
    ends_soon(rt, turn)
    assert author_texts(run_turn(rt, "hi", session_id="s2")) == [("root", "hello")]


def test_the_process_of_a_tool_that_runs_as_a_task_ends_with_the_turn(rt: Runtime, tools: ProcessTools) -> None:
    turn = start(rt, "crunch")
    pid = tools.wait_until_called()
    ends_soon(rt, turn)
    assert ends(pid)
    turn = start(rt, "both")
    pid = tools.wait_until_called()
    ends_soon(rt, turn)
    assert ends(pid)
    assert author_texts(run_turn(rt, "hi")) == [("root", "hello")]


def test_an_agent_that_does_not_listen_is_replaced(rt: Runtime, tools: ProcessTools) -> None:
    before = rt.statistics().agents["root"].pid
    turn = start(rt, "stop_the_loop")
    assert tools.wait_until_called() == before
    ends_soon(rt, turn)
    assert ends(before)
    assert author_texts(run_turn(rt, "hi")) == [("root", "hello")]
    assert rt.statistics().agents["root"].pid != before


@pytest.mark.full
def test_a_turn_whose_runner_is_lost_just_then_is_cancelled_all_the_same(rt: Runtime) -> None:
    for _ in range(3):
        turn = start(rt, "forever")
        assert any(next(iter(turn)).function_calls())
        os.kill(rt.statistics().runner.pid, signal.SIGKILL)
        ends_soon(rt, turn)
        assert rt.turns.get("ada", "s1", turn.invocation_id).state == "cancelled"
