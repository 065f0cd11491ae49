"""Conditions on which flows stop early: functions of the facts alone, plain data, with the names of tasks in them."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import AllComplete, AnyComplete, AnyFailed, Flow, LlmAgent, MaxAgentTurns, MaxLLMCalls, Task
from actors.errors import DefinitionError
from actors.layers.flows.rules.until import Condition, Facts
from actors.messages.flow import TaskStatus
from actors.testing import ScriptedModel

NAMES = ("a", "b", "c")
ORDER: tuple[TaskStatus, ...] = ("pending", "running", "successful", "failed", "skipped")

facts = st.builds(
    Facts,
    status=st.fixed_dictionaries({name: st.sampled_from(ORDER) for name in NAMES}),
    required=st.just(NAMES),
    llm_calls=st.integers(0, 4),
    agent_turns=st.integers(0, 4),
)
plain_conditions = st.one_of(
    st.builds(AnyComplete, n=st.integers(1, 3)),
    st.builds(AnyComplete, tasks=st.lists(st.sampled_from(NAMES), min_size=1, unique=True)),
    st.builds(AllComplete, st.lists(st.sampled_from(NAMES), min_size=1, unique=True)),
    st.builds(AnyFailed, st.integers(1, 3)),
    st.builds(MaxLLMCalls, st.integers(1, 4)),
    st.builds(MaxAgentTurns, st.integers(1, 4)),
)


def known(**status: TaskStatus) -> Facts:
    return Facts(status={"a": "pending", "b": "pending", "c": "pending", **status}, required=NAMES)


@pytest.mark.parametrize(
    ("condition", "holds", "holds_not"),
    [
        (AnyComplete(), known(a="skipped"), known(a="running")),
        (AnyComplete(2), known(a="successful", c="failed"), known(a="successful")),
        (AnyComplete(tasks=["b", "c"]), known(b="successful"), known(a="successful")),
        (AnyComplete(2, tasks=["b", "c"]), known(b="successful", c="failed"), known(a="successful", b="successful")),
        (AllComplete(["a", "b"]), known(a="successful", b="failed"), known(a="successful", c="successful")),
        (AnyFailed(), known(b="failed"), known(a="skipped", b="successful")),
        (AnyFailed(2), known(b="failed", c="failed"), known(b="failed")),
        (MaxLLMCalls(3), Facts(status={}, required=(), llm_calls=3), Facts(status={}, required=(), llm_calls=2)),
        (MaxAgentTurns(3), Facts(status={}, required=(), agent_turns=3), Facts(status={}, required=(), agent_turns=2)),
    ],
    ids=str,
)
def test_a_condition_holds_from_a_certain_number_on(condition: Condition, holds: Facts, holds_not: Facts) -> None:
    assert condition.holds(holds)
    assert not condition.holds(holds_not)


@given(plain_conditions, plain_conditions, facts)
def test_conditions_are_combined_by_or_and_and(one: Condition, other: Condition, now: Facts) -> None:
    assert (one | other).holds(now) == (one.holds(now) or other.holds(now))
    assert (one & other).holds(now) == (one.holds(now) and other.holds(now))
    assert (one & (one | other)).holds(now) == one.holds(now)


@given(plain_conditions, plain_conditions, facts, facts)
def test_what_holds_once_holds_for_good(one: Condition, other: Condition, before: Facts, more: Facts) -> None:
    complete = {task: status for task, status in before.status.items() if status in ("successful", "failed", "skipped")}
    after = Facts(
        status={**more.status, **complete},
        required=NAMES,
        llm_calls=before.llm_calls + more.llm_calls,
        agent_turns=before.agent_turns + more.agent_turns,
    )
    for condition in (one | other, one & other):
        assert condition.holds(after) or not condition.holds(before)


@given(plain_conditions, plain_conditions, facts)
def test_conditions_are_plain_data(one: Condition, other: Condition, now: Facts) -> None:
    condition = (one | other) & one
    copy = pickle.loads(pickle.dumps(condition))
    assert copy == condition
    assert copy.holds(now) == condition.holds(now)
    assert msgspec.json.encode(condition)


def test_conditions_show_how_they_are_written() -> None:
    condition = (AnyComplete(2) | MaxLLMCalls(15)) & AllComplete(["a"])
    assert str(condition) == "(AnyComplete(n=2) | MaxLLMCalls(n=15)) & AllComplete(tasks=('a',))"


def test_a_flow_names_the_tasks_of_its_condition() -> None:
    agent = LlmAgent(name="agent", model=ScriptedModel([]))
    first, second = Task("1"), Task("2", name="second")
    flow = Flow([first, second], agents=[agent], until=AllComplete([first, "second"]) | AnyComplete(tasks=[second]) & AnyFailed())
    assert str(flow.plan.until) == "AllComplete(tasks=('task_1', 'second')) | AnyComplete(tasks=('second',)) & AnyFailed()"
    assert pickle.loads(pickle.dumps(flow.plan)).until == flow.plan.until


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda: AnyComplete(0), "AnyComplete needs n, a whole number of at least 1, not 0"),
        (lambda: AnyFailed(True), "AnyFailed needs n, a whole number of at least 1, not True"),
        (lambda: MaxLLMCalls("2"), "MaxLLMCalls needs n"),  # type: ignore[arg-type]
        (lambda: MaxAgentTurns(1.5), "MaxAgentTurns needs n"),  # type: ignore[arg-type]
        (lambda: AnyComplete(3, tasks=["a", "b"]), "AnyComplete waits for 3 of 2 tasks"),
        (lambda: AllComplete([]), "AllComplete has an empty list of tasks"),
        (lambda: AllComplete("ab"), "AllComplete needs tasks, a list of tasks or of their names, not str"),
        (lambda: AnyComplete(tasks=[3]), "AnyComplete needs tasks, or their names, not int"),  # type: ignore[list-item]
    ],
)
def test_a_wrong_condition_is_refused(define: Callable[[], object], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        define()


def test_a_condition_is_combined_with_conditions_only() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        AnyComplete() | True  # type: ignore[operator]
