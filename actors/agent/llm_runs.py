"""What the runs of LLM agents begin with: a model, and tools in place of toolsets.

A toolset may need a credential of the user before anything else can be done: the agent asks for it (semantics.md 5.6).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from actors.agent.invocation import Invocation
from actors.behaviours.lifecycle import known_failure
from actors.behaviours.llm.run import run_llm
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.model import Model
from actors.messages.protocol.outcomes import AnyOutcome, Paused

Run = TypeVar("Run", bound=Invocation)
LlmBehaviour = Callable[[AgentSpec, Model, Run], Coroutine[Any, Any, AnyOutcome]]
"""What a run does with the agent, which has no toolsets any more, and its model."""


async def run_llm_agent(spec: AgentSpec, run: Invocation) -> AnyOutcome:
    """Run an LLM agent."""
    # What came before a failure, such as asking toolsets, would fail once more.
    return known_failure(run) or await with_tools(spec, run, _run_llm)


async def with_tools(spec: AgentSpec, run: Run, behave: LlmBehaviour[Run], *, can_wait: bool = True) -> AnyOutcome:
    """Run an LLM agent with the tools that its toolsets have; or ask the user for what these want to know.

    Args:
        can_wait: the run may wait for the user.
    """
    model = run.parts.model
    if spec.has_toolsets:
        resolved = await run.parts.environment.toolsets.resolved(spec, run, run.parts, can_wait=can_wait)
        if isinstance(resolved, Paused):
            return resolved
        spec = resolved
    return await behave(spec, model, run)


def _run_llm(spec: AgentSpec, model: Model, run: Invocation) -> Coroutine[Any, Any, AnyOutcome]:
    return run_llm(spec, model, run, run.interceptors)
