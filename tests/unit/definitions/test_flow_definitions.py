"""Wrong tasks and flows are refused when they are defined, with an error that helps; each flow has a name of its own."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actors import AgentTool, AnyComplete, Flow, FlowAgent, LlmAgent, MaxLLMCalls, SequentialAgent, Task, create_tasks, exit_loop
from actors.errors import DefinitionError
from actors.layers.trees.tree import AgentTree
from actors.messages.session import SessionKey
from actors.testing import ScriptedModel
from runtime.driver.turns.program_turns import plan_name


def agent(name: str = "a", **more: Any) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel([]), **more)


def dig() -> str:
    """Dig."""
    return "gold"


def other_dig() -> str:
    """Dig elsewhere."""
    return "iron"


other_dig.__name__ = "dig"


@dataclass
class Tags:
    names: frozenset[str] = frozenset()


def ask_user() -> None:
    """Has the name of the tool of interactive tasks."""


def fail_safe() -> None:
    """Has a name that is taken."""


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Task(), "objective"),
    (lambda: Task("x", nmae="t"), "nmae"),
    (lambda: Task("x", "t"), r"write Task\(objective, name=…\)"),  # type: ignore[arg-type]
    (lambda: Flow([Task("x")], ["a"]), r"write Flow\(tasks, agents=…\)"),  # type: ignore[arg-type]
    (lambda: Task("x", name="no way"), "no identifier"),
    (lambda: Task("x", name="t" * 49), "at most 48"),
    (lambda: Task("x", result_type=[]), "empty list"),
    (lambda: Task("x", result_type=3), "result_type is a type"),
    (lambda: Task("x", result_type=[object()]), "result_type is a type"),
    (lambda: Task("x", max_llm_calls=0), "max_llm_calls"),
    (lambda: Task("x", on_failed_dependency="wait"), "on_failed_dependency"),
    (lambda: Task("x", tools=[AgentTool(agent())]), "give it to the agents"),
    (lambda: Task("x", tools=[fail_safe]), "'fail_safe' is taken"),
    (lambda: Flow([Task("x")]), "no agents"),
    (lambda: Flow([Task("x")], agents=[agent()], name="my flow"), "no identifier"),
    (lambda: Flow([Task("x", name="t"), Task("y", name="t")], agents=[agent()]), "two tasks are called 't'"),
    (
        lambda: Flow([Task("x", name="tea", depends_on=["te"])], agents=[agent()]),
        "names 'te', which is no task.*Did you mean 'tea'",
    ),
    (lambda: Flow([Task("x", name="t", depends_on=["t"])], agents=[agent()]), "t needs t"),
    (lambda: Flow([Task("x", name="t"), Task("y", name="u", parent="t", depends_on=["t"])], agents=[agent()]), "circle"),
    (lambda: Flow([Task("x", agents=["ab"])], agents=[agent("abc")]), "names agent 'ab'.*Did you mean 'abc'"),
    (lambda: Flow([Task("x")], agents=[agent(), agent()]), "two agents are called 'a'"),
    (lambda: Flow([Task("x")], agents=[SequentialAgent(name="s")]), "only LLM agents"),
    (lambda: Flow([Task("x")], agents=[agent(tools=[fail_safe])]), "agent 'a': the tool name 'fail_safe' is taken"),
    (lambda: Flow([Task("x", tools=[other_dig])], agents=[agent(tools=[dig])]), "two tools called 'dig'"),
    (lambda: Flow([Task("x")], agents=[agent()], turn_strategy="robin"), "turn_strategy"),
    (lambda: Flow([Task("x")], agents=[agent()], moderator="b"), "moderator 'b'"),
    (lambda: Flow([Task("x")], agents=[agent()], max_parallel=0), "max_parallel"),
    (lambda: FlowAgent(agent()), "needs a Flow, not LlmAgent"),  # type: ignore[arg-type]
    (lambda: FlowAgent(Flow([Task("x")], agents=[agent()]), sub_agents=[agent("b")]), "give no sub_agents"),
    (lambda: Flow([Task("x")], agents=[agent()]).name_of("y"), "no task 'y'"),
    (lambda: Task("x", context=["a"]), "context"),
    (lambda: Task("x", context={"": 1}), "its keys are texts that are not empty, not ''"),
    (lambda: Task("x", context={1: "a"}), "context"),
    (lambda: Task("x", context={"key": object()}), "'key' is no JSON value: .*object"),
    (lambda: Task("x", context={"key": float("nan")}), "'key' is no JSON value: .*NaN"),
    (lambda: Task("x", context={"key": {"deep": [b"raw"]}}), "'key' has bytes in it: give a text"),
    (lambda: Task("x", context={"key": [Task("y")]}), "'key' has a Task in it: only values are shown, and tasks that are values"),
    (lambda: Task("x", context={"key": {"a", "b"}}), "'key' has a set in it: give a list, which has an order"),
    (lambda: Task("x", context={"key": [Tags()]}), "'key' has a set in it"),
    (lambda: Task("x", context={"key": agent()}), "'key' has a LlmAgent in it"),
    (lambda: Flow([Task("x", name="t", context={"key": Task("y", name="u", depends_on=["t"])})], agents=[agent()]), "circle"),
    (lambda: Task("x", instructions=3), "instructions"),
    (lambda: Task("x", interactive="perhaps"), "interactive"),
    (
        lambda: Flow([Task("x", name="t", completion_agents=["bo"])], agents=[agent(), agent("bob")]),
        "task 't': completion_agents names 'bo', which is none of its agents. Did you mean 'bob'.* Its agents: a, bob",
    ),
    (
        lambda: Flow([Task("x", agents=["a"], completion_agents=["b"])], agents=[agent(), agent("b")]),
        "completion_agents names 'b', which is none of its agents. .*Its agents: a$",
    ),
    (lambda: Flow([Task("x", completion_agents=[agent()])]), "no agents"),
    (lambda: Task("x", interactive=True, tools=[ask_user]), "it is interactive, so its agents get a tool 'ask_user': rename"),
    (
        lambda: AgentTree(FlowAgent(Flow([Task("x", interactive=True)], agents=[agent(tools=[ask_user])]))),
        "agent 'a' works on an interactive task and gets a tool 'ask_user', but has another one: rename that",
    ),
    (lambda: Flow([Task("x")], agents=[agent()], until=3), "until: .*it is a condition such as AnyComplete.*, not 3"),
    (
        lambda: Flow([Task("x", name="tea")], agents=[agent()], until=AnyComplete(tasks=["te"])),
        "until: flow 'flow' has no task 'te'. Did you mean 'tea'",
    ),
]


@pytest.mark.parametrize(("define", "words"), REFUSED)
def test_what_cannot_be_is_refused(define: Callable[[], object], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        define()


def test_a_flow_holds_what_its_tasks_need_without_being_told() -> None:
    first = Task("first")
    part = Task("part")
    whole = Task("whole", name="whole", subtasks=[part], depends_on=[first], agents=["b"])
    flow = Flow([whole], agents=[agent("a"), agent("b")])
    assert [(node.name, node.depends_on, node.parent, node.agents) for node in flow.plan.nodes] == [
        ("task_1", (), None, ("a", "b")),
        ("task_2", (), "whole", ("a", "b")),
        ("whole", ("task_1",), None, ("b",)),
    ]
    assert [flow.name_of(task) for task in (first, part, whole)] == ["task_1", "task_2", "whole"]


def test_names_that_are_given_are_not_given_again() -> None:
    flow = Flow([Task("x"), Task("y", name="task_1"), Task("z")], agents=[agent()])
    assert [node.name for node in flow.plan.nodes] == ["task_2", "task_1", "task_3"]


def test_a_chain_of_tasks_may_be_long() -> None:
    tasks = [Task("x", name="t0")]
    for number in range(1, 1_500):
        tasks.append(Task("x", name=f"t{number}", depends_on=[tasks[-1]]))
    assert len(Flow([tasks[-1]], agents=[agent()]).plan.nodes) == 1_500


def test_planners_and_ordinary_tools_may_stand_together() -> None:
    planner = agent(tools=[create_tasks, exit_loop])
    assert Flow([Task("x", tools=[create_tasks])], agents=[planner]).plan.tools


PROGRAM = """
from __future__ import annotations
import sys
from dataclasses import dataclass
from ray import cloudpickle
from actors import Flow, Task

@dataclass
class Inner:
    x: int

@dataclass
class Outer:
    items: list[Inner]
    note: str | None = None

flow = Flow([Task("x", name="t", result_type=Outer)], agents=["a"])
sys.stdout.buffer.write(cloudpickle.dumps(flow.plan))
"""


def test_a_result_type_of_a_program_itself_is_checked_in_other_processes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    pickled = subprocess.run([sys.executable, str(program)], capture_output=True, check=True, env={**os.environ}).stdout
    result = pickle.loads(pickled).results["t"]
    assert result.checked({"items": [{"x": 1}]}) == {"items": [{"x": 1}], "note": None}
    with pytest.raises(ValueError, match=r"items.0.x: Input should be a valid integer"):
        result.checked({"items": [{"x": "one"}]})


def name_of_plan(*, until: Any = None, **fields: Any) -> str:
    agent = LlmAgent(name="a", model=ScriptedModel([]))
    flow = Flow([Task("x", name="t", result_type=["b", "c"], **fields)], agents=[agent], until=until)
    return plan_name(flow.plan, (SessionKey("app", "ada", "s1"), "e-1"))


def test_a_flow_keeps_the_name_under_which_older_logs_have_it() -> None:
    assert name_of_plan() == "flow/524d8b9600308c877a52ac304d33cf70"


@pytest.mark.parametrize(
    "fields",
    [
        {"context": {"a": 1}},
        {"context": {"a": 2}},
        {"instructions": "Be kind."},
        {"interactive": True},
        {"completion_agents": ["a"]},
        {"until": AnyComplete()},
        {"until": MaxLLMCalls(1)},
        {"until": AnyComplete() | MaxLLMCalls(1)},
        {"until": AnyComplete() & MaxLLMCalls(1)},
    ],
    ids=str,
)
def test_another_flow_has_another_name(fields: dict[str, Any]) -> None:
    others: list[dict[str, Any]] = [{}, {"context": {"a": 3}}, {"until": AnyComplete(2)}]
    assert name_of_plan(**fields) == name_of_plan(**fields)
    assert name_of_plan(**fields) not in [name_of_plan(**other) for other in others]
