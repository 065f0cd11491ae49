"""Subclasses of LlmAgent, and nodes as roots: what they add is theirs, and what they do not change runs as actors."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.events import Event
from google.adk.workflow import BaseNode, FunctionNode
from google.genai import types

from actors.errors import DefinitionError
from runtime.adk import from_adk
from tests.adk import programs
from tests.support.runtimes import Deploy, author_texts, run_turn


class Branded(LlmAgent):  # type: ignore[misc]
    """Has fields, a method and a way to be made of its own."""

    brand: str = "acme"

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self.instruction = f"Speak for {self.brand}."

    def slogan(self) -> str:
        return f"{self.brand}!"


class Silent(LlmAgent):  # type: ignore[misc]
    """Has code in place of a model."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        content = types.Content(role="model", parts=[types.Part(text=f"{self.name} says no word of a model")])
        yield Event(author=self.name, content=content)


class Wordy(LlmAgent):  # type: ignore[misc]
    """Changes what LlmAgent does."""

    async def canonical_instruction(self, ctx: Any) -> tuple[str, bool]:
        return "other", True


class Echo(BaseNode):  # type: ignore[misc]
    async def _run_impl(self, *, ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
        yield f"echo: {node_input.parts[0].text}"


def double(node_input: Any) -> str:
    return str(node_input.parts[0].text) * 2


def test_a_subclass_that_changes_nothing_of_it_runs_as_an_llm_agent(deploy: Deploy) -> None:
    model = programs.Scripted(model="gemini-2.5-flash", steps=["show:instruction"])
    root = Branded(name="root", model=model, brand="zenith")
    assert from_adk(root).root_agent.kind == "llm"
    with deploy(root) as rt:
        assert "Speak for zenith." in run_turn(rt, "hi")[-1].text


def test_a_subclass_with_code_of_its_own_runs_that(deploy: Deploy) -> None:
    root = programs.agent("root", ("transfer_to_agent", {"agent_name": "silent"}), sub_agents=[Silent(name="silent")])
    assert [agent.kind for agent in from_adk(root).root_agent.sub_agents] == ["custom"]
    with deploy(root) as rt:
        assert author_texts(run_turn(rt, "hi"))[-1] == ("silent", "silent says no word of a model")


def test_a_subclass_that_changes_what_an_llm_agent_does_is_refused_by_name() -> None:
    with pytest.raises(DefinitionError, match="Wordy is a subclass of LlmAgent with canonical_instruction of its own"):
        from_adk(Wordy(name="root", model="gemini-2.5-flash"))


@pytest.mark.parametrize(("root", "output"), [(Echo(name="echo"), "echo: hi"), (FunctionNode(func=double), "hihi")])
def test_a_node_as_the_root_is_a_graph_of_one_node(root: Any, output: str, deploy: Deploy) -> None:
    with deploy(root) as rt:
        assert [event.output for event in run_turn(rt, "hi") if event.output is not None] == [output]


def test_a_subclass_of_base_agent_needs_code() -> None:
    with pytest.raises(DefinitionError, match="has no _run_async_impl"):
        from_adk(BaseAgent(name="root"))
