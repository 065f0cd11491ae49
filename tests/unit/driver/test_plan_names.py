"""A turn's flow has the same name whenever and wherever it is given, and another flow has another one."""

from __future__ import annotations

from typing import Any

import pytest

from actors import AnyComplete, Flow, LlmAgent, MaxLLMCalls, Task
from actors.messages.session import SessionKey
from actors.testing import ScriptedModel
from runtime.driver.turns.program_turns import plan_name


def name(*, until: Any = None, **fields: Any) -> str:
    agent = LlmAgent(name="a", model=ScriptedModel([]))
    flow = Flow([Task("x", name="t", result_type=["b", "c"], **fields)], agents=[agent], until=until)
    return plan_name(flow.plan, (SessionKey("app", "ada", "s1"), "e-1"))


def test_a_flow_keeps_the_name_under_which_older_logs_have_it() -> None:
    assert name() == "flow/524d8b9600308c877a52ac304d33cf70"


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
    assert name(**fields) == name(**fields)
    assert name(**fields) not in [name(**other) for other in others]
