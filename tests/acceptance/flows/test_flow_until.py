"""Flows that stop before all their tasks are done (semantics.md section 7)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from actors import (
    AllComplete,
    AnyComplete,
    AnyFailed,
    Event,
    Flow,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    MaxAgentTurns,
    MaxLLMCalls,
    Paused,
    RunConfig,
    Task,
    create_tasks,
)
from actors.layers.flows.rules.until import Condition
from actors.testing import ScriptedModel, responses
from runtime import TurnResult
from runtime.frontends.console.lines import event_lines
from tests.support.agents.flow_agents import ME, asked, succeed, worker
from tests.support.fixtures.lossy_engine import Loss, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.models.digging_model import DiggingModel
from tests.support.models.waiting_model import GatedModel
from tests.support.runtimes import Deploy

pytestmark = pytest.mark.sampled(3, of="module")

PLACES = 6
"""How many messages each actor is lost at."""


def dig() -> str:
    """Dig."""
    return "gold"


def chain(until: Condition | None, count: int = 4) -> Flow:
    """Tasks one after the other, of two agents in turn, which dig before they finish each: two model calls for every task."""
    agents = [LlmAgent(name=name, model=DiggingModel(), tools=[dig]) for name in ("a", "b")]
    names = [f"t{number}" for number in range(1, count + 1)]
    tasks = [
        Task("Dig.", name=name, agents=["ab"[index % 2]], depends_on=names[max(0, index - 1) : index])
        for index, name in enumerate(names)
    ]
    return Flow(tasks, agents=agents, until=until)


def run(deploy: Deploy, flow: Flow) -> TurnResult:
    with deploy(flow) as rt:
        return rt.run(**ME, message="go", run_config=RunConfig(timeout=30)).result()


def how(result: TurnResult) -> str:
    """The first letters of the tasks' states."""
    return "".join(task.status[:2] for task in result.tasks.values())


@pytest.mark.parametrize(
    ("until", "ended"),
    [
        (None, "susususu"),
        (AnyComplete(), "susksksk"),
        (AnyComplete(2), "sususksk"),
        (AnyComplete(tasks=["t3", "t2"]), "sususksk"),
        (AnyComplete(9), "susususu"),
        (AllComplete(["t1", "t3"]), "susususk"),
        (AnyFailed(), "susususu"),
        # The third task was begun: a call is not made once the condition holds.
        (MaxLLMCalls(4), "sususksk"),
        (MaxLLMCalls(5), "sususksk"),
        (MaxLLMCalls(8), "susususu"),
        (MaxAgentTurns(3), "susususk"),
        (AnyComplete(3) | MaxLLMCalls(2), "susksksk"),
        (AnyComplete(1) & MaxLLMCalls(3), "susksksk"),
        (AnyComplete(1) & (MaxLLMCalls(4) | AnyFailed()), "sususksk"),
    ],
    ids=str,
)
def test_what_is_not_done_when_the_condition_holds_is_skipped_and_the_outcome_says_so(
    local: Deploy, until: Condition | None, ended: str
) -> None:
    result = run(local, chain(until))
    assert how(result) == ended
    skipped = [task for task in result.tasks.values() if task.status == "skipped"]
    assert result.stopped == (str(until) if skipped else "")
    assert {task.reason for task in skipped} == ({f"the flow has stopped early: {until}"} if skipped else set())
    assert type(result.outcome).__name__ == "Finished"


def test_the_log_and_the_flows_answer_say_that_it_has_stopped(local: Deploy) -> None:
    result = run(local, chain(AnyComplete() | MaxLLMCalls(15), 2))
    assert result.text == "t2 skipped: the flow has stopped early: AnyComplete() | MaxLLMCalls(n=15)"
    lines = [text for event in result.events for _, text in event_lines(event)]
    assert "flow stops early: AnyComplete() | MaxLLMCalls(n=15)" in lines


def test_a_task_that_fails_stops_the_flow(local: Deploy) -> None:
    agent = worker("a", {"call": "fail_one", "args": {"reason": "why"}}, succeed("three", "x"))
    flow = Flow([Task("1", name="one"), Task("2", name="two"), Task("3", name="three")], agents=[agent], until=AnyFailed())
    result = run(local, flow)
    assert {name: task.status for name, task in result.tasks.items()} == {"one": "failed", "two": "skipped", "three": "skipped"}
    assert result.stopped == "AnyFailed()"


def test_turns_of_agents_are_counted_and_not_their_rounds(local: Deploy) -> None:
    end: Any = {"call": "end_turn"}
    agents = [worker("a", "Hm.", {"parts": ["One.", end]}, {"parts": ["Three.", end]}), worker("b", {"parts": ["Two.", end]})]
    result = run(local, Flow([Task("Talk.", name="talk")], agents=agents, until=MaxAgentTurns(3)))
    assert [event.text for event in result.events if event.text][:4] == ["Hm.", "One.", "Two.", "Three."]
    assert result.tasks["talk"].status == "skipped"
    assert result.stopped == "MaxAgentTurns(n=3)"


class Meeting:
    """A model whose calls wait until so many are under way, and that counts them."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self.calls = 0
        self._all_here = asyncio.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Finish the first task once all are here."""
        self.calls += 1
        if self.calls == self._expected:
            self._all_here.set()
        await self._all_here.wait()
        finish = next(tool.name for tool in request.tools if tool.name.startswith("succeed_"))
        for response in responses({"call": finish, "args": {"result": request.agent}}, stream=stream):
            yield response


@pytest.mark.parametrize("until", [MaxLLMCalls(2), MaxAgentTurns(2)], ids=str)
def test_agents_side_by_side_do_not_exceed_what_the_condition_allows(local: Deploy, until: Condition) -> None:
    model = Meeting(2)
    agents = [LlmAgent(name=name, model=model) for name in "abcd"]
    flow = Flow([Task("x", name=f"t_{agent.name}", agents=[agent]) for agent in agents], until=until)
    result = run(local, flow)
    assert how(result) == "sususksk"
    assert model.calls == 2


def test_rounds_under_way_are_finished(local: Deploy) -> None:
    model = Meeting(3)
    agents = [LlmAgent(name=name, model=model) for name in "abc"]
    tasks = [Task("x", name=f"t_{agent.name}", agents=[agent]) for agent in agents]
    last = Task("y", name="last", depends_on=tasks, agents=["a"])
    result = run(local, Flow([*tasks, last], agents=agents, until=AnyComplete()))
    assert how(result) == "susususk"


def test_a_flow_that_waits_for_the_user_stops_without_the_answer(local: Deploy) -> None:
    asking = worker("asking", {"call": "ask_user", "args": {"question": "Which?"}})
    busy = worker("busy", "Let me see.", succeed("work", "x"))
    tasks = [Task("Ask.", name="ask", agents=[asking], interactive=True), Task("Work.", name="work", agents=[busy])]
    result = run(local, Flow(tasks, until=AnyComplete()))
    assert {name: task.status for name, task in result.tasks.items()} == {"ask": "skipped", "work": "successful"}
    assert not isinstance(result.outcome, Paused)
    with local(Flow(tasks[:1], until=MaxLLMCalls(5))) as rt:
        assert rt.pending(user_id="ada", session_id="s1") == []


def test_a_flow_that_an_agent_holds_up_with_parts_of_its_task_stops_too(local: Deploy) -> None:
    """Nothing else can begin: the first turn has not ended, and waits for parts that no further turn may do."""
    parts = {"tasks": [{"name": "part", "objective": "dig", "agents": ["b"]}], "part_of": "plan"}
    agents = [worker("a", {"call": "create_tasks", "args": parts}, tools=[create_tasks]), worker("b")]
    result = run(local, Flow([Task("Plan.", name="plan", agents=["a"])], agents=agents, until=MaxAgentTurns(1)))
    assert {name: task.status for name, task in result.tasks.items()} == {"plan": "skipped", "part": "skipped"}


def test_a_run_of_a_few_tasks_and_a_flow_in_run_flow_stop_too(local: Deploy) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([succeed("one", "1"), succeed("two", "2"), succeed("one", "1")]))
    one, two, three = (Task("x", name=name) for name in ("one", "two", "three"))
    flow = Flow([one, two, three], agents=["root"], until=AllComplete([one, two]))
    with local(root) as rt:
        first = rt.run_flow(flow, **ME).result()
        assert (how(first), bool(first.stopped)) == ("sususk", True)
        second = rt.run_flow(flow, **ME, tasks=[one]).result()
        # All that was wanted is done.
        assert (second.tasks["one"].status, second.tasks["three"].status, second.stopped) == ("successful", "pending", "")
        attached = rt.attach(**ME, invocation_id=first.invocation_id).result()
        assert attached.stopped == first.stopped
    assert "three skipped: the flow has stopped early" in "".join(content.text for content in asked(root)[2].contents)


CONDITIONS: dict[str, Callable[[], Condition]] = {
    "calls": lambda: MaxLLMCalls(5),
    "turns": lambda: MaxAgentTurns(3),
    "tasks": lambda: AnyComplete(2) & MaxLLMCalls(3) | AnyFailed(),
}


def play(flow: Flow, *losses: Loss) -> tuple[TurnResult, list[Event], int, list[str]]:
    with quick_folder() as folder:
        rt, engine = lossy_runtime(flow, Path(folder), losses)
        with rt:
            turn = rt.run(**ME, message="go", run_config=RunConfig(timeout=30))
            result = turn.result()
            session = rt.sessions.get("ada", "s1")
            assert session is not None
            return result, list(session.events), engine.messages, engine.lost


def done(log: list[Event]) -> list[tuple[str, list[str]]]:
    """The calls that agents made, and the results that they got."""
    said = [(event.author, [call.name for call in event.function_calls()]) for event in log if any(event.function_calls())]
    called = Counter(call.id for event in log for call in event.function_calls())
    assert called == Counter(response.id for event in log for response in event.function_responses())
    return said


@pytest.mark.sampled(13, full=5)
@pytest.mark.parametrize("who", get_args(Victim))
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_flow_stops_at_the_same_place_whoever_is_lost(name: str, who: Victim) -> None:
    until = CONDITIONS[name]()
    undisturbed, log, messages, _ = play(chain(until))
    assert undisturbed.stopped == str(until)
    lost: list[str] = []
    for at in range(0, messages, max(1, messages // PLACES)):
        for before in (True, False):
            result, log_after, _, names = play(chain(until), Loss(at, who, before))
            assert (result.tasks, result.stopped) == (undisturbed.tasks, undisturbed.stopped), (at, before)
            assert done(log_after) == done(log), (at, before)
            lost += names
    assert lost


@pytest.mark.sampled(2)
@pytest.mark.parametrize("who", ["runner", "agents"])
def test_calls_that_a_loss_left_open_are_run_though_the_condition_holds_by_then(who: Victim) -> None:
    """The last model call that the condition allows has called a tool."""
    undisturbed, log, messages, _ = play(chain(MaxLLMCalls(3), 2))
    for at in range(messages // 2, messages):
        for before in (True, False):
            result, log_after, _, _ = play(chain(MaxLLMCalls(3), 2), Loss(at, who, before))
            assert (how(result), done(log_after)) == (how(undisturbed), done(log)), (at, before)


def test_a_flow_on_ray_stops_at_the_same_place_although_controller_agent_and_runner_are_killed(
    tmp_path: Path, local_ray: str
) -> None:
    slow = LlmAgent(name="b", model=GatedDiggingModel(tmp_path, ""), tools=[dig])
    tasks = [
        Task("Dig.", name="t1", agents=["a"]),
        Task("Dig.", name="t2", agents=["b"], depends_on=["t1"]),
        Task("Dig.", name="t3", agents=["a"], depends_on=["t2"]),
    ]
    agents = [LlmAgent(name="a", model=DiggingModel(), tools=[dig]), slow]
    with Deploy("ray", tmp_path)(Flow(tasks, agents=agents, until=MaxLLMCalls(4))) as rt:
        turn = rt.run(**ME, message="go")
        slow.model.wait_until_called()
        live = rt.statistics()
        for pid in {live.agents["flow"].pid, live.agents["b"].pid, live.runner.pid}:
            os.kill(pid, signal.SIGKILL)
        for _ in range(2):
            slow.model.wait_until_called()
            slow.model.release()
        result = turn.result()
        assert how(result) == "sususk"
        assert result.stopped == "MaxLLMCalls(n=4)"
        assert len([event for event in result.events if any(event.function_calls())]) == 4


class GatedDiggingModel(GatedModel):
    """A DiggingModel whose calls wait until the test lets them go on."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Wait, then respond by the request alone."""
        async for _ in super().generate(request, stream=stream):
            async for response in DiggingModel().generate(request, stream=stream):
                yield response
