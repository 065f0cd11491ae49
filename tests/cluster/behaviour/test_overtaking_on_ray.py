"""The Session actor is lost as a child begins, then its supervisor: what the child has done is not done again."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from actors import CallbackContext, FunctionTool, LlmAgent, SequentialAgent, ToolContext
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.machine.processes import is_running, stop
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, stored

pytestmark = pytest.mark.usefixtures("local_ray")


class KillsTheSessionActor:
    """The supervisor is about to have its child begin. Acts once, in the turn that pays, as soon as `session.pid` is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, context: CallbackContext) -> None:
        session, own = self.folder / "session.pid", self.folder / "root.pid"
        if context.user_content.text == "pay" and not own.exists():
            # Its message is stored by then. Before that the turn would begin anew, in another epoch, and this run be stopped.
            until(session.exists)
            own.write_text(str(os.getpid()))
            pid = int(session.read_text())
            os.kill(pid, signal.SIGKILL)
            # Until the Session actor is gone, the note could reach it.
            while is_running(pid):
                os.sched_yield()


class Pay:
    """A tool that writes down the calls for which it ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, tool_context: ToolContext) -> str:
        with (self.folder / "paid").open("a") as file:
            file.write(f"{tool_context.function_call_id}\n")
        return "paid"


def has_paid(rt: Runtime) -> bool:
    """The worker's last word is in the log."""
    return any(event.text == "I have paid" for event in stored(rt))


def runner_counts(rt: Runtime) -> Mapping[str, int]:
    """The Runner's figures, asked without the Session actor."""
    return rt._client.run(rt._client.engine.runner.statistics()).counts


def wait_for_the_child(rt: Runtime, begun: int) -> None:
    """Return when the Runner has begun two runs more than `begun`. AssertionError when the turn ends before."""
    while (counts := runner_counts(rt))["invocations"] < begun + 2:
        assert counts["running"] or counts["invocations"] == begun, "the turn ended without its child"


def test_a_child_that_has_finished_is_not_run_again(tmp_path: Path) -> None:
    worker = LlmAgent(
        name="worker",
        model=PatternModel([("tool:pay", "I have paid"), ("hi", "hello"), (".*", {"call": "pay"})]),
        tools=[FunctionTool(Pay(tmp_path), name="pay")],
    )
    root = SequentialAgent(name="root", sub_agents=[worker], before_agent_callback=KillsTheSessionActor(tmp_path))
    with Deploy("ray", tmp_path)(root) as rt:
        # Both agents have their processes after this, so the child is asked before the Session actor is back.
        run_turn(rt, "hi")
        begun = runner_counts(rt)["invocations"]
        session = str(rt.statistics().session.pid)
        turn = rt.run(user_id="ada", session_id="s1", message="pay")
        assert turn.agent == "root"
        written = tmp_path / "written.pid"
        written.write_text(session)
        written.rename(tmp_path / "session.pid")
        wait_for_the_child(rt, begun)
        # The supervisor has asked for the child, and has no Session actor yet for its note. From now on it tries no more.
        supervisor = int((tmp_path / "root.pid").read_text())
        stop(supervisor)
        # Figures do not wait for a process that is stopped.
        assert runner_counts(rt)["silent"] == 1
        while not has_paid(rt):
            pass
        os.kill(supervisor, signal.SIGKILL)
        turn.result()
        log = [event for event in stored(rt) if event.invocation_id == turn.invocation_id]
    calls = [call.id for event in log for call in event.function_calls()]
    assert (tmp_path / "paid").read_text().split() == calls
    assert len(calls) == 1
    assert [event.author for event in log] == ["user", "root", "worker", "worker", "worker"]
