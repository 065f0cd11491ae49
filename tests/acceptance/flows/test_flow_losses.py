"""A flow completes whichever actor is lost, and at whichever message; completed work is not repeated."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
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
    RunConfig,
    SequentialAgent,
    Task,
)
from actors.errors import FlowNotFoundError
from actors.testing import PatternModel
from runtime.driver.flows import TaskResult
from tests.support.fixtures.flow_fixture import DiggingModel
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.programs.flow_driver import errand, errand_runtime
from tests.support.runtimes import run_turn, stored
from tests.support.tries import tries

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
