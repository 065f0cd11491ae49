"""Actors are lost at any message while their deployment is updated: each turn ends on the tree that it began with."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from actors import LlmAgent, tool
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime

WHO: tuple[Victim, ...] = ("receiver", "agents", "runner", "session", "runner and session")
MESSAGES = 28
"""Of a play without losses."""


class Meeting:
    """Where a turn waits until its deployment was updated."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.goes_on = threading.Event()

    def root(self, says: str) -> LlmAgent:
        """Waits, hands over to its helper, and is the same in both trees but for what is said."""

        @tool
        def wait() -> str:
            """Wait for the update."""
            self.has_begun.set()
            assert self.goes_on.wait(60)
            return "ok"

        steps = [("wait", {"call": "wait"}), ("tool:wait", {"transfer": "helper"})]
        helper = LlmAgent(name="helper", description="helps", model=PatternModel([], default=f"{says} helper"))
        still = LlmAgent(name="still", description="is the same", model=PatternModel([], default="still"))
        model = PatternModel([*steps, ("still", {"transfer": "still"})], default=says)
        return LlmAgent(name="root", model=model, tools=[wait], sub_agents=[helper, still])


def said(rt: Runtime, message: str, session: str) -> str:
    turn = rt.run(user_id="ada", session_id=session, message=message, invocation_id=f"{session}-{message}")
    return turn.result().text


def play(folder: Path, losses: list[Loss]) -> LossyEngine:
    meeting = Meeting()
    rt, engine = lossy_runtime(meeting.root("old"), folder, losses)
    with rt:
        running = rt.run(user_id="ada", session_id="s1", message="wait", invocation_id="running")
        assert meeting.has_begun.wait(60)
        report = rt.update(meeting.root("new"))
        assert report.difference.changed == ["helper", "root"]
        # From here on no turn begins with the old tree, whatever was lost.
        assert said(rt, "hi", "s2") == "new"
        assert said(rt, "still", "s3") == "still"
        meeting.goes_on.set()
        assert running.result().text == "old helper"
        assert said(rt, "hi", "s1") == "new helper"
        versions = {turn.invocation_id: turn.version for turn in rt.turns.list()}
        assert versions.pop("running") == report.before
        assert set(versions.values()) == {report.version}
        assert len(versions) == 3
    return engine


def test_without_losses_there_are_as_many_messages_as_are_tried(tmp_path: Path) -> None:
    assert abs(play(tmp_path, []).messages - MESSAGES) <= 2


@pytest.mark.sampled(16, full=12)
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("at", range(MESSAGES))
def test_losses_change_neither_what_runs_nor_what_is_new(tmp_path: Path, at: int, who: Victim, before: bool) -> None:
    play(tmp_path, [Loss(at, who, before)])


@pytest.mark.sampled(16, full=12)
@pytest.mark.parametrize("first", range(0, MESSAGES, 3))
@pytest.mark.parametrize("second", [1, 5, 12])
def test_two_losses_change_neither(tmp_path: Path, first: int, second: int) -> None:
    play(tmp_path, [Loss(first, "runner", before=False), Loss(first + second, "runner and session", before=True)])
