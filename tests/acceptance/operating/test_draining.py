"""A deployment is drained: no new turn begins, what was accepted ends or stays open in the store, and then it stops."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from actors import CallbackContext, LlmAgent, LlmRequest, ToolContext, tool
from actors.errors import ActorLostError, AgentFailedError, DrainingError, OverloadedError, RequestError, RuntimeClosedError
from actors.testing import PatternModel
from runtime.driver.ending import Drained
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from runtime.web import app_for
from tests.support.agents.conversation_tools import Gate
from tests.support.fixtures.lossy_engine import LossyEngine, lossy_runtime
from tests.support.polling import until
from tests.support.runtimes import Deploy, stored
from tests.support.servers.web_server import TIMEOUT_S, serving
from tests.support.sharded_runtimes import ShardedDeploy

pytestmark = pytest.mark.sampled(2, of="module")


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    """Another thread of the program."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


@tool(long_running=True)
def ask_manager() -> None:
    """Ask the manager."""


def agent(gate: Gate) -> LlmAgent:
    """Waits at the gate, asks, or fails, when it is told to."""
    model = PatternModel(
        [
            ("wait", {"call": "wait"}),
            ("ask", {"call": "ask_manager"}),
            ("tool:ask_manager", "he said yes"),
            ("tool:", "ok"),
        ],
        default="ok",
    )
    return LlmAgent(name="root", model=model, tools=[gate.tool(), ask_manager], before_model_callback=fail_if_told)


def fail_if_told(context: CallbackContext, request: LlmRequest) -> None:
    """Fail at the message `fail`."""
    if request.contents[-1].text == "fail":
        raise ConnectionError("no connection")


def start(rt: Runtime, message: str, session: str = "s1", **options: Any) -> Turn:
    return rt.run(user_id="ada", session_id=session, message=message, **options)


def at_the_gate(rt: Runtime, gate: Gate, session: str = "s1", **options: Any) -> Turn:
    """A turn in the middle of a call."""
    turn = start(rt, "wait", session, **options)
    gate.wait_for_caller()
    return turn


def draining(rt: Runtime, thread: ThreadPoolExecutor, within_s: float | None = None) -> Future[Drained]:
    """The drain, under way in another thread."""
    drain = thread.submit(rt.drain, within_s)
    until(lambda: rt.statistics().runner.counts["draining"])
    return drain


def test_what_was_accepted_ends_and_what_is_new_is_refused(deploy: Deploy, gate: Gate, thread: ThreadPoolExecutor) -> None:
    root = agent(gate)
    with deploy(root) as rt:
        start(rt, "ask", "paused").result()
        (call,) = rt.pending(user_id="ada")
        with pytest.raises(AgentFailedError):
            start(rt, "fail", "s3", invocation_id="failed").result()
        running, in_line = at_the_gate(rt, gate), start(rt, "later")
        until(lambda: rt.statistics().runner.counts["waiting"] == 1)
        drain = draining(rt, thread)
        with pytest.raises(DrainingError, match="'test' is to be stopped and takes no new turns") as refused:
            start(rt, "new", "s2", invocation_id="new").result()
        assert isinstance(refused.value, OverloadedError)
        assert refused.value.retry_after_s > 0
        with pytest.raises(DrainingError):
            rt.answer(call, {"yes": True}).result()
        with pytest.raises(DrainingError):
            rt.retry(user_id="ada", session_id="s3", invocation_id="failed").result()
        # What is there is joined, and read.
        again = rt.attach(user_id="ada", session_id="s1", invocation_id=running.invocation_id)
        assert rt.turns.counts().paused == 1
        assert not drain.done()
        gate.open()
        assert [turn.result().text for turn in (running, in_line, again)] == ["ok"] * 3
        drained = drain.result()
        assert (drained.left, drained.paused) == ((), 1)
        with pytest.raises(RuntimeClosedError):
            start(rt, "new", "s2").result()
    with deploy(root) as rt:
        assert rt.answer(call, {"yes": True}).result().text == "he said yes"
        assert stored(rt, "s2") == []
        assert start(rt, "new", "s2", invocation_id="new").result().text == "ok"


def test_turns_that_need_longer_stay_open_and_the_next_deployment_goes_on_with_them(
    deploy: Deploy, gate: Gate, thread: ThreadPoolExecutor
) -> None:
    root = agent(gate)
    with deploy(root) as rt:
        running, in_line = at_the_gate(rt, gate), start(rt, "later")
        until(lambda: rt.statistics().runner.counts["waiting"] == 1)
        drained = draining(rt, thread, 0.2).result()
        assert [(turn.state, turn.invocation_id) for turn in drained.left] == [
            ("waiting", in_line.invocation_id),
            ("running", running.invocation_id),
        ]
        assert drained.took_s >= 0.2
        for turn in (running, in_line):
            with pytest.raises((RuntimeClosedError, ActorLostError)):
                turn.result()
    gate.release()
    with deploy(root) as rt:
        assert rt.turns.get("ada", "s1", running.invocation_id).state == "running"
        resumed = rt.attach(user_id="ada", session_id="s1", invocation_id=running.invocation_id)
        gate.open()
        assert resumed.result().text == "ok"
        assert [event.text for event in stored(rt) if event.author == "user"] == ["wait"]
        assert rt.turns.get("ada", "s1", running.invocation_id).epoch == 2


def test_the_next_deployment_goes_on_with_all_open_turns_at_once(deploy: Deploy, gate: Gate, thread: ThreadPoolExecutor) -> None:
    root = agent(gate)
    with deploy(root) as rt:
        at_the_gate(rt, gate, "s1", on_leave="continue")
        start(rt, "wait", "s2", on_leave="continue")
        until(lambda: rt.turns.counts().running == 2)
        start(rt, "ask", "paused").result()
        assert len(draining(rt, thread, 0.2).result().left) == 2
    with deploy(root) as rt:
        assert rt.statistics().runner.counts["running"] == 0
        assert rt.turns.resume() == 2
        assert rt.statistics().runner.counts["running"] == 2
        # Once more resumes nothing twice.
        assert rt.turns.resume() == 2
        until(lambda: let_through(rt, gate))
        assert [(turn.session_id, turn.state, turn.epoch) for turn in rt.turns.list(state="finished")] == [
            ("s2", "finished", 2),
            ("s1", "finished", 2),
        ]
        assert rt.turns.resume() == 0
        assert rt.turns.counts().paused == 1


def let_through(rt: Runtime, gate: Gate) -> bool:
    """True when no turn runs; each call lets those through that wait at the gate."""
    gate.release()
    return rt.turns.counts().running == 0


@pytest.mark.parametrize("drains", [3, pytest.param(10, marks=pytest.mark.full)])
def test_programs_that_ask_again_lose_no_turn_through_many_drains(local: Deploy, drains: int) -> None:
    """A map asks for turns without pause, while one deployment after the other is drained. Each input is answered once."""
    calls: Counter[str] = Counter()

    @tool
    async def note(tool_context: ToolContext) -> None:
        """Note a call."""
        await asyncio.sleep(0)
        calls[tool_context.session_id] += 1

    model = PatternModel([("tool:", "noted")], default={"call": "note"})
    root, inputs = LlmAgent(name="root", model=model, tools=[note]), [f"input {number}" for number in range(100 * drains)]
    answered: dict[int, str] = {}

    def ask(rt: Runtime) -> None:
        with suppress(RuntimeClosedError, ActorLostError):
            for result in rt.map(inputs, name="many", concurrency=8):
                assert result.error is None
                answered.setdefault(result.index, str(result.output))

    for number in range(drains + 1):
        with local(root) as rt:
            asking = threading.Thread(target=ask, args=(rt,))
            asking.start()
            if number < drains:
                before = len(answered)
                until(partial(grown, answered, before + 20))
                assert rt.drain().left == ()
            asking.join()
    assert answered == dict.fromkeys(range(len(inputs)), "noted")
    assert (len(calls), set(calls.values())) == (len(inputs), {1})


def grown(answered: Sized, size: int) -> bool:
    return len(answered) >= size


def test_a_drain_that_is_interrupted_lets_new_turns_in_again(deploy: Deploy, gate: Gate) -> None:
    async def interrupted(rt: Runtime) -> None:
        drain = asyncio.create_task(rt.aio.drain())
        await asyncio.to_thread(until, lambda: rt.statistics().runner.counts["draining"])
        drain.cancel()
        with pytest.raises(asyncio.CancelledError):
            await drain
        assert (await start(rt, "new", "s2")).text == "ok"

    with deploy(agent(gate)) as rt:
        running = at_the_gate(rt, gate)
        asyncio.run(interrupted(rt))
        gate.open()
        assert running.result().text == "ok"
        assert rt.drain().left == ()


def test_a_turn_that_an_earlier_deployment_has_left_is_left_to_a_later_one(
    local: Deploy, gate: Gate, thread: ThreadPoolExecutor
) -> None:
    root = agent(gate)
    with local(root) as rt:
        old = at_the_gate(rt, gate, "old").invocation_id
        rt.drain(within_s=0.1)
    gate.release()
    with local(root) as rt:
        running = at_the_gate(rt, gate)
        drain = draining(rt, thread)
        with pytest.raises(DrainingError):
            rt.attach(user_id="ada", session_id="old", invocation_id=old).result()
        with pytest.raises(DrainingError):
            start(rt, "wait", "old", invocation_id=old).result()
        gate.open()
        assert (running.result().text, [turn.invocation_id for turn in drain.result().left]) == ("ok", [])


def test_what_is_due_while_a_deployment_drains_is_left_to_the_next_one(
    deploy: Deploy, gate: Gate, thread: ThreadPoolExecutor
) -> None:
    root = agent(gate)
    with deploy(root) as rt:
        running = at_the_gate(rt, gate)
        at = datetime.now(UTC) + timedelta(seconds=1)
        rt.schedules.create("once", user_id="ada", session_id="due", message="now", at=at)
        drain = draining(rt, thread)
        until(lambda: datetime.now(UTC) > at + timedelta(seconds=0.5))
        assert stored(rt, "due") == []
        gate.open()
        assert running.result().text == "ok"
        assert drain.result().left == ()
    with deploy(root) as rt:
        until(lambda: [event.text for event in stored(rt, "due")] == ["now", "ok"])
        assert rt.schedules.list(user_id="ada") == []


@pytest.mark.parametrize("within_s", [0, -1, float("nan"), "soon"])
def test_a_wrong_time_is_refused_and_drains_nothing(local: Deploy, gate: Gate, within_s: Any) -> None:
    with local(agent(gate)) as rt:
        with pytest.raises(RequestError, match="within_s must be a timedelta above zero, or a number of seconds"):
            rt.drain(within_s=within_s)
        assert start(rt, "hello").result().text == "ok"


def test_all_runners_of_all_shards_are_drained(server: str, gate: Gate, thread: ThreadPoolExecutor, tmp_path: Path) -> None:
    with ShardedDeploy("local", tmp_path, server)(agent(gate)) as rt:
        for number in range(6):
            start(rt, "hello", f"s{number}").result()
        running = at_the_gate(rt, gate)
        drain = draining(rt, thread)
        until(lambda: rt.statistics().runner.counts["draining"] == 2)
        for number in range(6, 12):
            with pytest.raises(DrainingError):
                start(rt, "hello", f"s{number}").result()
        gate.open()
        assert (running.result().text, drain.result().left) == ("ok", ())


def test_the_service_refuses_turns_and_is_not_ready(local: Deploy, gate: Gate, thread: ThreadPoolExecutor) -> None:
    with local(agent(gate), app_name="desk") as rt, serving(app_for(rt)) as url:
        assert httpx2.get(f"{url}/readyz", timeout=TIMEOUT_S).status_code == 200
        running = at_the_gate(rt, gate)
        drain = draining(rt, thread)
        refused = httpx2.post(f"{url}/v1/apps/desk/sessions/s2/turns?user=ada", json={"message": "hi"}, timeout=TIMEOUT_S)
        problem = refused.json()
        assert (refused.status_code, problem["type"]) == (503, "DrainingError")
        assert "takes no new turns" in problem["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        until(lambda: httpx2.get(f"{url}/readyz", timeout=TIMEOUT_S).status_code == 503)
        assert "draining" in httpx2.get(f"{url}/readyz", timeout=TIMEOUT_S).text
        assert httpx2.get(f"{url}/healthz", timeout=TIMEOUT_S).status_code == 200
        gate.open()
        assert (running.result().text, drain.result().left) == ("ok", ())


@pytest.mark.parametrize("lost", [["runner"], ["session"], ["session", "runner"]], ids=str)
def test_a_drain_goes_on_whichever_actor_is_lost(tmp_path: Path, gate: Gate, thread: ThreadPoolExecutor, lost: list[str]) -> None:
    rt, engine = lossy_runtime(agent(gate), tmp_path)
    with rt:
        running, in_line = at_the_gate(rt, gate, invocation_id="running"), start(rt, "later")
        until(lambda: rt.statistics().runner.counts["waiting"] == 1)
        drain = draining(rt, thread)
        lose(rt, engine, lost)
        with pytest.raises(DrainingError):
            start(rt, "new", "s2").result()
        # With the Runner its agents are lost, and the call that was under way is repeated.
        until(lambda: has_ended(running, gate))
        assert [turn.result().text for turn in (running, in_line)] == ["ok"] * 2
        assert drain.result().left == ()
    assert {each.split()[0] for each in engine.lost} >= set(lost)


@pytest.mark.full
@pytest.mark.parametrize("lost", [["runner"], ["session"], ["session", "runner"]], ids=str)
def test_a_drain_goes_on_when_processes_are_killed(
    local_ray: str, tmp_path: Path, gate: Gate, thread: ThreadPoolExecutor, lost: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYGROVE_MAX_LIVE_AGENTS", "1")
    with Deploy("ray", tmp_path)(agent(gate)) as rt:
        running = at_the_gate(rt, gate)
        drain = draining(rt, thread)
        figures = rt.statistics()
        for part in lost:
            os.kill({"runner": figures.runner, "session": figures.session}[part].pid, signal.SIGKILL)
        if len(lost) > 1:
            # No actor knows of the drain then, until the program that drains says so again.
            until(lambda: rt.statistics().runner.counts["draining"])
        for number in range(20):
            with pytest.raises(DrainingError):
                start(rt, "new", f"new-{number}").result()
        until(lambda: has_ended(running, gate))
        assert (running.result().text, drain.result().left) == ("ok", ())


def has_ended(turn: Turn, gate: Gate) -> bool:
    """True when the turn has ended; each call lets those through that wait at the gate."""
    gate.release()
    return turn.outcome is not None


def lose(rt: Runtime, engine: LossyEngine, parts: list[str]) -> None:
    """Lose actors, all at once."""
    rt._client.run(engine._lose(parts, None))
