"""What runs graphs, and agents whose tools run nodes."""

from __future__ import annotations

from actors.agent.invocation import Invocation
from actors.agent.kinds import AgentKind
from actors.agent.llm_runs import run_llm_agent
from actors.behaviours.lifecycle import run_lifecycle
from actors.definitions.tree.spec import AgentSpec
from actors.layers.graphs.behaviour.attempts import run_graph
from actors.layers.graphs.behaviour.tool_runs import ToolRuns
from actors.layers.graphs.runs.invocation import GraphInvocation, NodeInvocation
from actors.messages.protocol.outcomes import AnyOutcome


async def run_graph_agent(spec: AgentSpec, run: GraphInvocation) -> AnyOutcome:
    """Run a graph. It finds out itself whether it has failed before, since it may be tried again."""
    return await run_lifecycle(spec, run, lambda: run_graph(spec, run))


async def run_llm_agent_with_nodes(spec: AgentSpec, run: Invocation) -> AnyOutcome:
    """Run an LLM agent."""
    run.call_runs = ToolRuns(spec, run).of_call
    return await run_llm_agent(spec, run)


GRAPHS = AgentKind(run_graph_agent, GraphInvocation)
LLM_AGENTS = AgentKind(run_llm_agent_with_nodes, Invocation, node=NodeInvocation)
