"""What runs the agents of each kind."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from actors.agent.invocation import Invocation
from actors.behaviours.lifecycle import known_failure, run_lifecycle
from actors.behaviours.llm.run import run_llm
from actors.definitions.tree.spec import AgentSpec
from actors.messages.protocol.outcomes import AnyOutcome, Paused
from actors.messages.topology import LLM

Run = TypeVar("Run", bound=Invocation)
Behaviour = Callable[[AgentSpec, Run], Coroutine[Any, Any, AnyOutcome]]
"""What a run does, from its beginning or from where it was lost or paused, until its outcome."""


@dataclass(frozen=True)
class AgentKind(Generic[Run]):
    """A kind of agent.

    Attributes:
        run: what a run is to its behaviour: what it knows and can do.
        node: the same of a run that is given a NodeTask; None: `run`.
    """

    behave: Behaviour[Run]
    run: type[Run]
    node: type[Run] | None = None


def with_callbacks(behave: Behaviour[Run]) -> Behaviour[Run]:
    """The behaviour with the agent's callbacks around it. A run that has failed before it was lost does nothing more."""

    async def run_agent(spec: AgentSpec, run: Run) -> AnyOutcome:
        return known_failure(run) or await run_lifecycle(spec, run, lambda: behave(spec, run))

    return run_agent


async def run_llm_agent(spec: AgentSpec, run: Invocation) -> AnyOutcome:
    """Run an LLM agent."""
    # What came before a failure, such as asking toolsets, would fail once more.
    if (failed := known_failure(run)) is not None:
        return failed
    model = run.parts.model
    resolved = await with_tools(spec, run)
    return resolved if isinstance(resolved, Paused) else await run_llm(resolved, model, run, run.interceptors)


async def with_tools(spec: AgentSpec, run: Invocation, *, can_wait: bool = True) -> AgentSpec | Paused:
    """The spec of an LLM agent with tools in place of its toolsets; or Paused, while the user answers what these ask.

    A toolset may need a credential of the user before anything else can be done: the agent asks for it (semantics.md 5.6).

    Args:
        can_wait: the run may wait for the user.
    """
    if not spec.has_toolsets:
        return spec
    return await run.parts.environment.toolsets.resolved(spec, run, run.parts, can_wait=can_wait)


CORE_KINDS: Mapping[str, AgentKind[Any]] = {LLM: AgentKind(run_llm_agent, Invocation)}
"""By the `kind` of the definition."""
