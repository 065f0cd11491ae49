"""Flows in which a task, an agent or a limit fails, an actor is lost, or the turn is cancelled (semantics.md section 7)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import (
    START,
    BaseAgent,
    Content,
    Event,
    Flow,
    FlowAgent,
    FunctionNode,
    Graph,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    RunConfig,
    SequentialAgent,
    Task,
)
from actors.errors import (
    AgentFailedError,
    FlowLimitExceededError,
    FlowNotFoundError,
    LlmCallsLimitExceededError,
    TurnCancelledError,
)
from actors.testing import PatternModel
from runtime.driver.turns.turn import TaskResult
from tests.support.agents.flow_agents import ME, BarrierModel, asked, succeed, worker
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.fixtures.session_fixture import settled
from tests.support.machine.folders import quick_folder
from tests.support.models.digging_model import DiggingModel
from tests.support.programs.flow_driver import errand, errand_runtime
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.tries import tries


def test_what_needs_a_failed_task_is_skipped_and_the_turn_ends_well(local: Deploy) -> None:
    agent = worker("a", {"call": "fail_t", "args": {"reason": "no data"}}, succeed("w", "anyway"))
    flow = Flow(
        [
            Task("1", name="t"),
            Task("2", name="u", depends_on=["t"]),
            Task("3", name="v", depends_on=["u"]),
            Task("4", name="w", depends_on=["u"], on_failed_dependency="run"),
        ],
        agents=[agent],
    )
    with local(flow) as rt:
        tasks = rt.run(**ME, message="go").result().tasks
    assert {name: task.status for name, task in tasks.items()} == {
        "t": "failed",
        "u": "skipped",
        "v": "skipped",
        "w": "successful",
    }
    assert tasks["t"].reason == "no data"
    assert "'t', which was failed" in tasks["u"].reason
    assert "`u` (skipped)" in asked(agent)[1].system_instruction


def test_a_task_fails_at_its_model_calls(local: Deploy) -> None:
    agent = worker("a", "hm", "hm", succeed("u", "x"))
    with local(Flow([Task("1", name="t", max_llm_calls=2), Task("2", name="u")], agents=[agent], max_parallel=1)) as rt:
        tasks = rt.run(**ME, message="go").result().tasks
    assert (tasks["t"].status, tasks["u"].status) == ("failed", "successful")
    assert "max_llm_calls" in tasks["t"].reason


def test_a_task_that_its_model_never_finishes_fails_before_the_turn_has_used_its_calls(local: Deploy) -> None:
    talks = LlmAgent(name="a", model=PatternModel([], default="I think about it."))
    with local(Flow([Task("1", name="t"), Task("2", name="u", depends_on=["t"])], agents=[talks])) as rt:
        result = rt.run(**ME, message="go").result()
    assert {name: task.status for name, task in result.tasks.items()} == {"t": "failed", "u": "skipped"}
    assert result.tasks["t"].reason == "max_llm_calls=50: it was not done after 50 model calls"
    assert len([event for event in result.events if event.text == "I think about it."]) == 50


def test_many_tasks_of_one_agent_do_not_use_up_each_others_calls(local: Deploy) -> None:
    count = 60
    agent = worker("a", *(succeed(f"t{number}", "x") for number in range(count)))
    with local(Flow([Task("1", name=f"t{number}") for number in range(count)], agents=[agent])) as rt:
        tasks = rt.run(**ME, message="go").result().tasks
    assert {task.status for task in tasks.values()} == {"successful"}


@pytest.mark.parametrize("limit", ["max_rounds", "max_llm_calls"])
def test_a_flow_at_its_limit_fails_loudly_and_the_next_turn_works(local: Deploy, limit: str) -> None:
    agent = worker("a", "hm", "hm", succeed("t", "x"))
    with local(Flow([Task("1", name="t")], agents=[agent], **{limit: 2})) as rt:
        with pytest.raises(FlowLimitExceededError, match=f"'flow' is not done after what {limit}=2 allows; left to do: t"):
            rt.run(**ME, message="go").result()
        assert rt.run(**ME, message="again").result().text == "x"


@pytest.mark.parametrize("limit", ["max_llm_calls", "max_rounds"])
@pytest.mark.parametrize("most", [3, 4, 5])
def test_rounds_that_are_under_way_count_for_the_limit_of_a_flow(local: Deploy, limit: str, most: int) -> None:
    made: list[str] = []
    has_made_its_own = asyncio.Event()

    class Talking:
        """Two agents take their time, until the third one has made what is left for it."""

        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            made.append(request.agent)
            if made.count("a") == most - 2:
                has_made_its_own.set()
            if request.agent != "a":
                await has_made_its_own.wait()
                for _ in range(10):
                    await settled()
            yield LlmResponse(content=Content.of_text("hm", role="model"))

    agents = [LlmAgent(name=name, model=Talking()) for name in ("a", "b", "c")]
    tasks = [Task("look", name=f"t_{agent.name}", agents=[agent]) for agent in agents]
    with local(Flow(tasks, agents=agents, **{limit: most})) as rt, pytest.raises(FlowLimitExceededError, match=f"{limit}={most}"):
        rt.run(**ME, message="go").result()
    assert len(made) == most


def test_the_turns_own_limit_of_model_calls_holds_in_flows(local: Deploy) -> None:
    agent = worker("a", "hm", "hm", "hm")
    with local(Flow([Task("1", name="t")], agents=[agent])) as rt, pytest.raises(LlmCallsLimitExceededError):
        rt.run(**ME, message="go", run_config=RunConfig(max_llm_calls=2)).result()
    assert len(asked(agent)) == 2


def test_an_agent_that_fails_ends_the_flow_and_those_beside_it(local: Deploy) -> None:
    waits = asyncio.Event()
    stopped: list[str] = []

    class Waiting:
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            try:
                await waits.wait()
            finally:
                stopped.append(request.agent)
            yield LlmResponse()

    agents = [worker("a", ValueError("broken")), LlmAgent(name="b", model=Waiting())]
    with local(Flow([Task("1", name="t", agents=["a"]), Task("2", name="u", agents=["b"])], agents=agents)) as rt:
        with pytest.raises(AgentFailedError, match="broken"):
            rt.run(**ME, message="go").result()
        assert stopped == ["b"]


def test_a_flow_is_cancelled_with_its_turn(local: Deploy) -> None:
    model = BarrierModel(2)
    with local(Flow([Task("1", name="t")], agents=[LlmAgent(name="a", model=model)])) as rt:
        turn = rt.run(**ME, message="go")
        for event in turn:
            if event.flow is not None and event.flow.turns:
                turn.cancel()
                break
        with pytest.raises(TurnCancelledError):
            turn.result()


def test_the_cancelled_call_of_an_agent_is_not_shown_to_others_later(local: Deploy) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    agents = [worker(name, {"call": "wait"}, succeed(f"{name}_task", "done"), tools=[wait]) for name in "ab"]
    tasks = [Task("1", name="a_task", agents=["a"]), Task("2", name="b_task", agents=["b"])]
    with local(Flow(tasks, agents=agents)) as rt:
        turn = rt.run(**ME, message="go")
        calls = (event.author for event in turn if any(event.function_calls()))
        assert {next(calls), next(calls)} == {"a", "b"}
        turn.cancel()
        rt.run(**ME, message="go on").result()
    for agent, other in zip(agents, "ba", strict=True):
        shown = str(asked(agent)[1].contents)
        assert "cancelled" in shown
        assert f"[{other}]" not in shown


PLACES = 4
"""How many messages each actor is lost at."""


def dig() -> str:
    """Dig."""
    return "gold"


def office(name: str = "works") -> Flow:
    """Two tasks side by side, a third that needs both, and a fourth that two may do."""
    agents = [LlmAgent(name=each, model=DiggingModel(), tools=[dig]) for each in ("a", "b")]
    tasks = [
        Task("1", name="t1", agents=["a"]),
        Task("2", name="t2", agents=["b"]),
        Task("3", name="t3", agents=["a"], depends_on=["t1", "t2"]),
        Task("4", name="t4", depends_on=["t3"]),
    ]
    return Flow(tasks, agents=agents, name=name)


def inside() -> BaseAgent:
    """The flow in a workflow, between two others."""
    first, last = (LlmAgent(name=name, model=PatternModel([], default=f"{name} is done")) for name in ("first", "last"))
    return SequentialAgent(name="root", sub_agents=[first, FlowAgent(office()), last])


def as_node() -> BaseAgent:
    """The flow as a node, whose answer the node after it is given."""
    first = LlmAgent(name="first", model=PatternModel([], default="first is done"))
    last = FunctionNode(lambda node_input: Event(content=Content.of_text(node_input, role="model")), name="last")
    return Graph(name="root", edges=[(START, first, FlowAgent(office()), last)])


def play(root: BaseAgent | Flow, *losses: Loss) -> tuple[list[Event], dict[str, TaskResult], LossyEngine]:
    with quick_folder() as folder:
        rt, engine = lossy_runtime(root, Path(folder), losses)
        with rt:
            turn = rt.run(user_id="ada", session_id="s1", message="go", run_config=RunConfig(timeout=30), invocation_id="e-1")
            tasks = dict(turn.result().tasks)
            session = rt.sessions.get("ada", "s1")
            assert session is not None
            assert [text for event in run_turn(rt, "go on", run_config=RunConfig(timeout=30)) if (text := event.text)]
            return [event for event in session.events if event.invocation_id == "e-1"], tasks, engine


def check(log: list[Event], tasks: dict[str, TaskResult]) -> None:
    assert {name: task.status for name, task in tasks.items()} == dict.fromkeys(("t1", "t2", "t3", "t4"), "successful")
    marks = [event.flow for event in log if event.flow is not None and event.flow.tasks]
    done = Counter(name for mark in marks for name, change in mark.changes.items() if change.status == "successful")
    assert done == Counter(list(tasks))
    called = Counter(call.id for event in log for call in event.function_calls())
    answered = Counter(response.id for event in log for response in event.function_responses())
    assert called == answered
    assert set(called.values()) == {1}
    assert [event.seq for event in log] == list(range(1, len(log) + 1))


@pytest.mark.sampled(17, full=5)
@pytest.mark.parametrize("who", get_args(Victim))
@pytest.mark.parametrize("where", [office, inside, as_node])
def test_a_flow_is_completed_whoever_is_lost_and_nothing_is_done_twice(
    where: Callable[[], BaseAgent | Flow], who: Victim
) -> None:
    _, _, undisturbed = play(where())
    lost: Counter[str] = Counter()
    for at in range(0, undisturbed.messages // 2, max(1, undisturbed.messages // 2 // PLACES)):
        for before in (True, False):
            log, tasks, engine = play(where(), Loss(at, who, before))
            check(log, tasks)
            if where is as_node:
                assert [event.text for event in log if event.text][-1] == "succeed_t4 by b"
            lost.update(engine.lost)
    assert lost


@settings(max_examples=tries(10))
@given(
    st.lists(
        st.builds(Loss, at=st.integers(0, 50), who=st.sampled_from(get_args(Victim)), before=st.booleans()),
        min_size=1,
        max_size=2,
    )
)
def test_two_losses_are_as_good_as_none(losses: list[Loss]) -> None:
    log, tasks, _ = play(office(), *losses)
    check(log, tasks)


def test_a_flow_that_is_given_again_with_the_id_of_its_turn_goes_on_in_a_new_deployment(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.support.programs.flow_driver", str(tmp_path)]
    assert subprocess.run(program, cwd=Path(__file__).parents[3], check=False).returncode == 7
    with errand_runtime(tmp_path, is_deadly=False) as rt:
        turn = rt.run_flow(errand(), user_id="ada", session_id="s1", invocation_id="e-1", run_config=RunConfig(timeout=30))
        assert {name: task.result for name, task in turn.result().tasks.items()} == {"first": 42, "second": "It is 42."}
        calls = [call.name for event in stored(rt) for call in event.function_calls()]
        assert calls == ["succeed_first", "succeed_second"]


def test_a_flow_that_no_program_gives_again_fails_its_turn_with_a_clear_error(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.support.programs.flow_driver", str(tmp_path)]
    assert subprocess.run(program, cwd=Path(__file__).parents[3], check=False).returncode == 7
    with errand_runtime(tmp_path, is_deadly=False) as rt:
        turn = rt.attach(user_id="ada", session_id="s1", invocation_id="e-1")
        with pytest.raises(FlowNotFoundError, match="with run_flow and the same invocation_id"):
            turn.result()
