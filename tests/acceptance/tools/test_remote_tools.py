"""Tools that need resources run in a process of their own on Ray, and in a thread without it."""

from __future__ import annotations

import asyncio
import os

import pytest

from actors import LlmAgent, RunConfig, ToolContext, tool
from actors.errors import DefinitionError, TurnTimeoutError
from actors.testing import ScriptedModel
from tests.support.runtimes import Deploy, author_texts, run_turn


@tool(num_cpus=1)
def where() -> dict[str, int]:
    """Tell in which process this runs."""
    return {"pid": os.getpid()}


@tool(num_cpus=1)
async def later(x: int) -> int:
    """Add one, in no hurry."""
    return x + 1


@tool(num_cpus=1)
def broken() -> None:
    """Fail."""
    raise ValueError("no fuel")


@tool(num_cpus=1)
async def endless() -> None:
    """Never return."""
    await asyncio.Event().wait()


def test_it_runs_where_the_resources_are_and_the_model_gets_its_result(deploy: Deploy) -> None:
    model = ScriptedModel([{"parts": [{"call": "where"}, {"call": "later", "args": {"x": 1}}]}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[where, later])) as rt:
        _, answer, _ = run_turn(rt, "go")
        pid, sum_ = (response.response for response in answer.function_responses())
        assert sum_ == {"result": 2}
        assert (pid["pid"] == rt.statistics().agents["root"].pid) == (deploy.engine == "local")


def test_what_it_raises_is_told_to_the_model_as_it_was_raised(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=ScriptedModel([{"call": "broken"}, "sorry"]), tools=[broken])) as rt:
        _, answer, last = run_turn(rt, "go")
        assert [response.response for response in answer.function_responses()] == [{"error": "ValueError: no fuel"}]
        assert last.text == "sorry"


def test_it_ends_with_its_turn(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=ScriptedModel(["hello", {"call": "endless"}, "next"]), tools=[endless])) as rt:
        # The agent lives before the time counts: the turn has to come as far as the tool.
        assert author_texts(run_turn(rt, "hi")) == [("root", "hello")]
        with pytest.raises(TurnTimeoutError):
            run_turn(rt, "go", run_config=RunConfig(timeout=2.0))
        assert author_texts(run_turn(rt, "again")) == [("root", "next")]


def test_it_cannot_take_a_context_and_its_needs_have_names() -> None:
    def takes_context(context: ToolContext) -> None: ...

    with pytest.raises(DefinitionError, match="cannot take a ToolContext"):
        tool(num_cpus=1)(takes_context)
    with pytest.raises(DefinitionError, match="num_cpu: there is no such field"):
        tool(num_cpu=1)
