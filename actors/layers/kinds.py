"""What runs the agents of each kind, features included: the one place that knows all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.agent.flow_invocation import ControllerInvocation, RoundInvocation
from actors.agent.kinds import CORE_KINDS, AgentKind, with_callbacks
from actors.agent.llm_runs import with_tools
from actors.agent.nodes.invocation import GraphInvocation, NodeInvocation
from actors.behaviours.flow.controller import run_flow
from actors.behaviours.flow.round import run_round
from actors.behaviours.graph.attempts import run_graph
from actors.behaviours.lifecycle import run_lifecycle
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.model import Model
from actors.messages.flow import ROUND
from actors.messages.protocol.outcomes import AnyOutcome
from actors.messages.topology import FLOW, GRAPH


async def run_graph_agent(spec: AgentSpec, run: GraphInvocation) -> AnyOutcome:
    """Run a graph. It finds out itself whether it has failed before, since it may be tried again."""
    return await run_lifecycle(spec, run, lambda: run_graph(spec, run))


async def run_flow_agent(spec: AgentSpec, run: ControllerInvocation) -> AnyOutcome:
    """Run a flow."""
    return await run_flow(spec, run, run.parts.environment.plans)


async def run_round_agent(spec: AgentSpec, run: RoundInvocation) -> AnyOutcome:
    """Run an LLM agent for one round of a flow."""

    async def in_flow(spec: AgentSpec, model: Model, _: object) -> AnyOutcome:
        work = run.message.work
        assert work is not None
        return await run_round(spec, model, run, work, await run.parts.environment.plans(work.definition))

    return await with_tools(spec, run, in_flow, can_wait=False)


KINDS: Mapping[str, AgentKind[Any]] = {
    **{name: replace(kind, node=NodeInvocation) for name, kind in CORE_KINDS.items()},
    GRAPH: AgentKind(run_graph_agent, GraphInvocation),
    FLOW: AgentKind(with_callbacks(run_flow_agent), ControllerInvocation),
    ROUND: AgentKind(run_round_agent, RoundInvocation),
}
"""By the `kind` of the definition; rounds of flows by a name of their own."""


def agent_actor(spec: AgentSpec, environment: AgentEnvironment, name: str = "") -> AgentActor:
    """The actor of an agent of any kind: see `AgentActor`."""
    return AgentActor(spec, environment, name, KINDS)
