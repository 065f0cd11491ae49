"""Model calls that are counted before a nested run begins: it need not ask for its first (semantics.md section 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors import BaseAgent, Content, LlmAgent, LlmResponse, ParallelAgent, RunConfig, SequentialAgent
from actors.messages import protocol as p
from actors.refs import RunnerRef
from actors.testing import ScriptedModel
from tests.support import inside
from tests.support.fixtures.runner_fixture import RunnerFixture

Build = Callable[..., RunnerFixture]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The agents that have asked for a model call, once for each."""
    names: list[str] = []
    ask = RunnerRef.ask

    async def noted(ref: RunnerRef, message: p.Request[Any]) -> p.Message:
        if isinstance(message, p.TakeLlmCall):
            names.append(message.agent)
        return await ask(ref, message)

    monkeypatch.setattr(RunnerRef, "ask", noted)
    return names


def child(name: str) -> LlmAgent:
    """An agent that asks its model twice."""

    def look() -> str:
        """Look."""
        return "seen"

    return LlmAgent(name=name, model=ScriptedModel([{"call": "look"}, "ok"]), tools=[look])


def children() -> list[LlmAgent]:
    return [child(name) for name in "abc"]


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
async def test_a_nested_run_asks_for_each_model_call_but_its_first(
    build: Build, asked: list[str], kind: type[SequentialAgent | ParallelAgent]
) -> None:
    _, outcome = await build(kind(name="root", sub_agents=children())).run()
    assert isinstance(outcome, p.Finished)
    assert sorted(asked) == ["a", "b", "c"]


async def test_where_few_model_calls_are_left_it_asks_for_each(build: Build, asked: list[str]) -> None:
    root = SequentialAgent(name="root", sub_agents=children())
    await build(root).run(config=RunConfig(max_llm_calls=inside.MANY_CALLS))
    assert asked == ["a", "a", "b", "b", "c", "c"]


@pytest.mark.parametrize("many", [0, 3, 100])
@pytest.mark.parametrize(("limit", "is_enough"), [(6, True), (5, False), (2, False)])
async def test_the_limit_holds_whichever_calls_were_counted_beforehand(
    build: Build, monkeypatch: pytest.MonkeyPatch, many: int, limit: int, is_enough: bool
) -> None:
    inside.change(monkeypatch, "model_calls", MANY_CALLS=many)
    root: BaseAgent = SequentialAgent(name="root", sub_agents=children())
    _, outcome = await build(root).run(config=RunConfig(max_llm_calls=limit))
    assert isinstance(outcome, p.Finished if is_enough else p.Failed)


async def test_a_call_that_is_not_made_is_given_back(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    inside.change(monkeypatch, "model_calls", MANY_CALLS=0)
    no = LlmResponse(content=Content.of_text("no", role="model"))
    silent = [
        LlmAgent(name=f"silent_{number}", model=ScriptedModel([]), before_model_callback=lambda **_: no) for number in range(3)
    ]
    root = SequentialAgent(name="root", sub_agents=[*silent, LlmAgent(name="last", model=ScriptedModel(["ok"]))])
    events, outcome = await build(root).run(config=RunConfig(max_llm_calls=1))
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events][-1] == "ok"
