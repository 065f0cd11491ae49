"""What runs the agents of each kind, features included: the one place that knows all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from actors.agent.actor import CORE_KINDS, AgentActor, AgentKind, with_callbacks
from actors.agent.environment import AgentEnvironment
from actors.agent.invocation import Invocation
from actors.definitions.spec import AgentSpec
from actors.layers.custom.behaviour import run_custom
from actors.layers.flows.behaviour.controller import run_flow
from actors.layers.flows.behaviour.round import run_round
from actors.layers.flows.runs import ControllerInvocation, RoundInvocation
from actors.layers.graphs.behaviour.run import run_graph
from actors.layers.graphs.runs import GraphInvocation, NodeInvocation
from actors.layers.workflows.run import run_loop, run_parallel, run_sequential
from actors.messages.flow import ROUND
from actors.messages.topology import CUSTOM, FLOW, GRAPH, LLM, LOOP, PARALLEL, SEQUENTIAL

KINDS: Mapping[str, AgentKind[Any]] = {
    LLM: replace(CORE_KINDS[LLM], node=NodeInvocation),
    CUSTOM: AgentKind(with_callbacks(run_custom), Invocation, NodeInvocation),
    SEQUENTIAL: AgentKind(with_callbacks(run_sequential), Invocation, NodeInvocation),
    PARALLEL: AgentKind(with_callbacks(run_parallel), Invocation, NodeInvocation),
    LOOP: AgentKind(with_callbacks(run_loop), Invocation, NodeInvocation),
    GRAPH: AgentKind(run_graph, GraphInvocation),
    FLOW: AgentKind(with_callbacks(run_flow), ControllerInvocation),
    ROUND: AgentKind(run_round, RoundInvocation),
}
"""By the `kind` of the definition; rounds of flows by a name of their own."""


def agent_actor(spec: AgentSpec, environment: AgentEnvironment, name: str = "") -> AgentActor:
    """The actor of an agent of any kind: see `AgentActor`."""
    return AgentActor(spec, environment, name, KINDS)
