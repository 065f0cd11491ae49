"""The agents that work on the tasks of flows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from actors.definitions.agents.base import BaseAgent
from actors.definitions.agents.llm import LlmAgent
from actors.errors import AgentTreeError
from actors.errors.suggestions import did_you_mean
from actors.layers.flows.definitions.task_tools import refuse_taken_name
from actors.layers.flows.rules.tool_names import refuse_other_question


def check_defined_workers(agents: Mapping[str, BaseAgent], flow: str, workers: Iterable[str], asking: Sequence[str] = ()) -> None:
    """Check that all agents of a flow are in the tree and can work on its tasks.

    Args:
        agents: those of the tree, and those beside it, by name.
        workers: the names of those that work on tasks.
        asking: those of them that work on interactive tasks.

    Raises:
        AgentTreeError: one is not or cannot; the message names the flow and the agent.
    """
    for name in workers:
        agent = agents.get(name)
        if agent is None:
            raise AgentTreeError(f"flow {flow!r} names agent {name!r}, which is not in it.{did_you_mean(name, agents)}")
        if not isinstance(agent, LlmAgent):
            raise AgentTreeError(
                f"flow {flow!r} names agent {name!r}, a {type(agent).__name__}: only LLM agents can work on tasks"
            )
        if agent.delegates:
            raise AgentTreeError(
                f"flow {flow!r} names agent {name!r}, which delegates to {agent.delegates[0].name!r}: in a round of a flow "
                "nothing can wait for that, so give it an AgentTool"
            )
        for tool in agent.tools:
            try:
                refuse_taken_name(tool)
            except ValueError as error:
                raise AgentTreeError(f"flow {flow!r} names agent {name!r}: {error}") from error
            if name in asking:
                refuse_other_question(flow, name, tool.name)
