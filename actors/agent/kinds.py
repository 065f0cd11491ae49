"""What runs the agents of each kind."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from actors.agent.invocation import Invocation
from actors.agent.llm_runs import run_llm_agent
from actors.behaviours.lifecycle import known_failure, run_lifecycle
from actors.definitions.tree.spec import AgentSpec
from actors.messages.protocol.outcomes import AnyOutcome
from actors.messages.topology import LLM

Run = TypeVar("Run", bound=Invocation)
Behaviour = Callable[[AgentSpec, Run], Coroutine[Any, Any, AnyOutcome]]
"""What a run does, from its beginning or from where it was lost or paused, until its outcome."""


@dataclass(frozen=True)
class AgentKind(Generic[Run]):
    """A kind of agent.

    Attributes:
        behave: what its runs do.
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


CORE_KINDS: Mapping[str, AgentKind[Any]] = {LLM: AgentKind(run_llm_agent, Invocation)}
"""By the `kind` of the definition."""
