"""What runs graphs."""

from __future__ import annotations

from actors.agent.kinds import AgentKind
from actors.behaviours.lifecycle import run_lifecycle
from actors.definitions.tree.spec import AgentSpec
from actors.layers.graphs.behaviour.attempts import run_graph
from actors.layers.graphs.runs.invocation import GraphInvocation
from actors.messages.protocol.outcomes import AnyOutcome


async def run_graph_agent(spec: AgentSpec, run: GraphInvocation) -> AnyOutcome:
    """Run a graph. It finds out itself whether it has failed before, since it may be tried again."""
    return await run_lifecycle(spec, run, lambda: run_graph(spec, run))


GRAPHS = AgentKind(run_graph_agent, GraphInvocation)
