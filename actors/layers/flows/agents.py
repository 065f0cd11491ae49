"""What runs flows, and agents for one round of a flow."""

from __future__ import annotations

from actors.agent.kinds import AgentKind, with_callbacks
from actors.agent.llm_runs import with_tools
from actors.definitions.tree.spec import AgentSpec
from actors.layers.flows.behaviour.controller import run_flow
from actors.layers.flows.behaviour.round import run_round
from actors.layers.flows.runs import ControllerInvocation, RoundInvocation
from actors.messages.protocol.outcomes import AnyOutcome


async def run_round_agent(spec: AgentSpec, run: RoundInvocation) -> AnyOutcome:
    """Run an LLM agent for one round of a flow."""
    return await with_tools(spec, run, run_round, can_wait=False)


FLOWS = AgentKind(with_callbacks(run_flow), ControllerInvocation)
ROUNDS = AgentKind(run_round_agent, RoundInvocation)
