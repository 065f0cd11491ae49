"""Flows as agents: one that is part of a tree, one beside each tree that runs all other flows, and checks of their workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from actors.definitions.agents.base import BaseAgent
from actors.definitions.agents.llm import LlmAgent
from actors.errors import AgentTreeError, DefinitionError
from actors.errors.hints import did_you_mean
from actors.layers.flows.definitions.flow import Flow
from actors.layers.flows.definitions.task_tools import refuse_taken_name
from actors.layers.flows.rules.prompt import refuse_other_question
from actors.messages.flow import CONTROLLER


class Controller(BaseAgent):
    """Orders the work on the tasks of a flow. Each run is given its flow."""

    kind: ClassVar[Literal["flow"]] = "flow"

    name: str = CONTROLLER


class FlowAgent(Controller):
    """An agent that runs a flow. Its answer gives the results of the tasks that no other task needs.

    The agents of the flow are its children. Agents that the flow only names must stand elsewhere in the tree.

    Args:
        flow: the flow to run.
        name: by default the flow's name.
        description: by default the flow's description.

    Raises:
        DefinitionError: `flow` is no Flow, `sub_agents` are given, or a field is unknown or wrong; the message names it.
    """

    flow: Flow

    def __init__(self, flow: Flow | None = None, /, **fields: Any) -> None:
        given = fields.setdefault("flow", flow)
        if not isinstance(given, Flow):
            raise DefinitionError(f"FlowAgent needs a Flow, not {type(given).__name__}")
        if fields.get("sub_agents"):
            raise DefinitionError("the children of a FlowAgent are the agents of its flow: give no sub_agents")
        fields.setdefault("name", given.name)
        fields.setdefault("description", given.description)
        fields["sub_agents"] = [agent for agent in given.members.values() if agent is not None]
        super().__init__(**fields)

    def node_fields(self) -> Mapping[str, Any]:
        """The agents of the flow, wherever they stand in the tree: see BaseAgent."""
        return {"workers": tuple(self.flow.members)}

    def check_among(self, agents: Mapping[str, BaseAgent]) -> None:
        """Check that the agents of the flow are in the tree and can work on its tasks: see BaseAgent."""
        check_defined_workers(agents, self.name, self.flow.members, self.flow.plan.asking_agents)

    def alone(self) -> BaseAgent:
        """The same definition without its children and without the flow, of which the actor is given the plan."""
        return self.unchecked_copy(sub_agents=(), flow=None)


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
