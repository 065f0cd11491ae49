"""What happens to a deployment's processes, store and connections is kept, and can be read from any program."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import OverloadedError
from actors.interfaces.telemetry import tell_event
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.observability.logs.kept import MAX_EVENTS, DeploymentEvent, EventRing, RingHandler
from runtime.settings import Settings
from tests.support.models.waiting_model import GatedModel
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn

pytestmark = pytest.mark.sampled(2, of="module")


def kinds(rt: Runtime) -> list[str]:
    return [event.kind for event in rt.deployment_events()]


def named(rt: Runtime, kind: str) -> list[DeploymentEvent]:
    return [event for event in rt.deployment_events() if event.kind == kind]


def test_a_store_that_is_away_and_comes_back_is_an_event(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=PatternModel([], default="hi"))) as rt:
        run_turn(rt, "hi")
        with closing(sqlite3.connect(deploy.folder / "sessions.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            turn = rt.run(user_id="ada", session_id="s1", message="and now")
            until(lambda: "store away" in kinds(rt))
            other.execute("ROLLBACK")
        assert turn.result().text == "hi"
        until(lambda: "store back" in kinds(rt))
        found = [event for event in rt.deployment_events() if event.kind.startswith("store")]
        assert [event.kind for event in found] == ["store away", "store back"]
        assert "sessions.db" in found[0].text
        assert found[0].text.endswith("It is waited for, up to 30 s")
        assert found[0].at_s <= found[1].at_s


def test_processes_that_start_and_are_lost_are_events_and_counted(local_ray: str, tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="hi"))) as rt:
        run_turn(rt, "hi")
        until(lambda: named(rt, "process started"))
        pid = rt.statistics().agents["root"].pid
        os.kill(pid, signal.SIGKILL)
        run_turn(rt, "hi")
        until(lambda: named(rt, "process lost"))
        [lost] = named(rt, "process lost")
        assert lost.text.endswith("is gone, or does not answer, and is ended; agents in it: root")
        assert rt.statistics().runner.counts["lost"] == 1
        runner = rt.statistics().runner.pid
        os.kill(runner, signal.SIGKILL)
        run_turn(rt, "hi")
        until(lambda: named(rt, "actor replaced"))
        [replaced] = named(rt, "actor replaced")
        assert replaced.text == "the process of test/runner was lost, and this one was started in its place"
        assert replaced.pid == rt.statistics().runner.pid != runner


def test_updates_and_rollbacks_are_events(deploy: Deploy) -> None:
    first, second = (LlmAgent(name="root", model=PatternModel([], default=text)) for text in ("one", "two"))
    with deploy(first) as rt:
        old = rt.versions()[0].id
        new = rt.update(second).version
        rt.update(second)
        rt.rollback()
        rt.update(second, share=0.2)
        rt.rollback()
        until(lambda: len(named(rt, "version changed")) == 4)
        assert [event.text for event in named(rt, "version changed")] == [
            f"new turns get version {new} in place of {old}",
            f"new turns get version {old} again, as before {new}",
            f"20 % of the new sessions get version {new}, the others stay with {old}",
            f"new sessions get version {old} again, and no longer {new}",
        ]


def test_turns_that_are_refused_are_told_once_a_minute(local: Deploy, tmp_path: Path) -> None:
    model = GatedModel(tmp_path, "done")
    with local(LlmAgent(name="root", model=model), settings=Settings(max_waiting_session_turns=1)) as rt:
        first = rt.run(user_id="ada", session_id="s1", message="hi")
        model.wait_until_called()
        until(lambda: rt.statistics().runner.counts["waiting"] == 0)
        second = rt.run(user_id="ada", session_id="s1", message="hi")
        until(lambda: rt.statistics().runner.counts["waiting"] == 1)
        for _ in range(3):
            with pytest.raises(OverloadedError):
                run_turn(rt, "hi")
        [told] = named(rt, "overload")
        assert told.text.startswith("turns are refused, 1 since this was told last: session 's1' has 1 turns waiting")
        model.release()
        model.wait_until_called()
        model.release()
        assert [turn.result().text for turn in (first, second)] == ["done", "done"]


def test_quiet_events_reach_no_log_of_a_higher_level(local_ray: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(log_level="WARNING")
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="hi")), settings=settings) as rt:
        run_turn(rt, "hi")
        until(lambda: named(rt, "process started"))
        with Runtime.connect("test", settings=settings) as joined:
            assert [event.kind for event in joined.deployment_events()] == kinds(rt)
    assert "has been started for agents" not in caplog.text


def test_the_newest_events_are_kept() -> None:
    ring = EventRing()
    handler, logger = RingHandler(ring), logging.getLogger("raygrove.events")
    logger.addHandler(handler)
    try:
        for number in range(MAX_EVENTS + 5):
            tell_event("overload", "number %d", number)
        logger.warning("no event")
    finally:
        logger.removeHandler(handler)
    texts = [event.text for event in ring.all()]
    assert (len(texts), texts[0], texts[-1]) == (MAX_EVENTS, "number 5", f"number {MAX_EVENTS + 4}")
