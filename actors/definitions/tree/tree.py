"""From definitions to the parent map, and to what each agent's actor is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from actors.definitions.agents.agent_tool import AgentTool
from actors.definitions.agents.base import Agent
from actors.definitions.agents.llm import LlmAgent
from actors.definitions.agents.plugin import Plugin, checked
from actors.definitions.agents.workflow import Controller
from actors.definitions.tools.tasks import refuse_taken_name
from actors.definitions.tree.process_groups import process_groups
from actors.definitions.tree.spec import AgentSpec
from actors.errors import AgentTreeError, DefinitionError
from actors.errors.suggestions import did_you_mean
from actors.messages.event import USER
from actors.messages.limits import DEFAULT_LIMITS, Limits
from actors.messages.topology import AgentNode, Topology
from actors.rules.checks.ids import MAX_ID
from actors.rules.routing.transfer import FIND_TOOL, transfer_targets


class AgentTree:
    """The definitions, checked: every name stands once, and every agent has one parent.

    Args:
        root: its root.
        plugins: for every agent.
        limits: the same.

    Raises:
        AgentTreeError: it is no tree, or a name is not allowed; the message names the agent.
        DefinitionError: there is no root, or a plugin is none.
    """

    def __init__(self, root: Agent | None, plugins: Sequence[Plugin] = (), limits: Limits = DEFAULT_LIMITS) -> None:
        if root is None:
            raise DefinitionError("root agent is required")
        if not isinstance(root, Agent):
            raise DefinitionError(f"root_agent must be an agent, not {type(root).__name__}")
        self.root = root
        self.plugins = checked(plugins)
        self.limits = limits
        self._agents: dict[str, Agent] = {}
        self._parents: dict[str, str | None] = {}
        self._asked_by: dict[str, str] = {}
        self._tops: dict[str, Agent] = {}
        self._asks: dict[str, list[Agent]] = {}
        self._finders: list[str] = []
        for agent, parent in _walk(root):
            self._add(agent, parent)
        self._add_tool_agents()
        # Beside the tree, and named as no agent of a user's can be: for flows that are run without being part of it.
        standing = Controller()
        self._agents[standing.name], self._parents[standing.name], self._tops[standing.name] = standing, None, standing
        for flow in self.flow_agents():
            self.check_workers(flow.name, flow.agent_names)
        self.topology = Topology(tuple(self._node(agent) for agent in self._agents.values()))
        self.process_groups = process_groups(self.topology, {agent.name: agent.placement for agent in self})
        for name in self._finders:
            self._check_finds_nobody(name)

    def _check_finds_nobody(self, name: str) -> None:
        """See that an agent with a tool `find_agents` of its own is not given the other. Raises AgentTreeError."""
        count, most = len(transfer_targets(self.topology, name)), self.limits.max_listed_targets
        if count > most:
            raise AgentTreeError(
                f"agent {name!r} may transfer to {count} agents, more than the {most} that its model is told by name: "
                f"{FIND_TOOL!r} is the tool to find them, so call its own tool otherwise"
            )

    def _add_tool_agents(self) -> None:
        """Add the agents that are tools, with what is below them; each once, however many agents have it."""
        in_tree = set(self._agents)
        users = list(self._agents.values())
        for user in users:
            for asked in self._asks.get(user.name, ()):
                if asked.name in in_tree and self._agents[asked.name] is asked:
                    raise AgentTreeError(
                        f"agent {asked.name!r} is in the tree and a tool of {user.name!r}: make one object for each"
                    )
                if asked.name in self._asked_by and self._agents[asked.name] is asked:
                    continue
                for agent, parent in _walk(asked):
                    self._add(agent, parent)
                    users.append(agent)
                self._asked_by[asked.name] = user.name

    def check_workers(self, flow: str, agents: Iterable[str]) -> None:
        """See that agents are in the tree and can work on the tasks of a flow. Raises AgentTreeError, which names the flow."""
        for name in agents:
            agent = self._agents.get(name)
            if agent is None:
                raise AgentTreeError(f"flow {flow!r} names agent {name!r}, which is not in it.{did_you_mean(name, self._agents)}")
            if not isinstance(agent, LlmAgent):
                raise AgentTreeError(
                    f"flow {flow!r} names agent {name!r}, a {type(agent).__name__}: only LLM agents can work on tasks"
                )
            for tool in agent.tools:
                try:
                    refuse_taken_name(tool)
                except ValueError as error:
                    raise AgentTreeError(f"flow {flow!r} names agent {name!r}: {error}") from error

    def flow_agents(self) -> Iterator[Controller]:
        """The flows that are part of the tree."""
        return (agent for agent in self if isinstance(agent, Controller) and agent.agent_names)

    def find(self, name: str) -> Agent | None:
        """The agent of that name, or None."""
        return self._agents.get(name)

    def _add(self, agent: Agent, parent: Agent | None) -> None:
        name = agent.name
        if name == USER:
            raise AgentTreeError(f"an agent is called {name!r}, which is the author of the user's messages")
        if not name.isidentifier():
            raise AgentTreeError(f"{name!r} is no identifier: use letters, digits and underscores, and no digit first")
        if len(name) > MAX_ID:
            raise AgentTreeError(f"the name {name[:20]!r}… has {len(name)} characters: use {MAX_ID} at most")
        if name in self._agents:
            first, second = self._parents[name], parent.name if parent is not None else None
            if self._agents[name] is not agent:
                raise AgentTreeError(f"the name {name!r} is given twice, below {first!r} and below {second!r}")
            if first == second:
                raise AgentTreeError(f"agent {name!r} is listed twice below {first!r}")
            raise AgentTreeError(f"agent {name!r} has two parents, {first!r} and {second!r}: make one object for each place")
        self._agents[name] = agent
        self._parents[name] = parent.name if parent is not None else None
        self._tops[name] = self._tops[parent.name] if parent is not None else agent
        for tool in getattr(agent, "tools", ()):
            if isinstance(tool, AgentTool):
                self._asks.setdefault(name, []).append(tool.agent)
            if isinstance(agent, LlmAgent) and tool.name == FIND_TOOL:
                self._finders.append(name)

    def _node(self, agent: Agent) -> AgentNode:
        name, llm = agent.name, agent if isinstance(agent, LlmAgent) else None
        return AgentNode(
            name=name,
            kind=agent.kind,
            description=agent.description,
            parent=self._parents[name],
            children=tuple([child.name for child in agent.sub_agents]),
            tool_agents=tuple([asked.name for asked in self._asks.get(name, ())]),
            disallow_transfer_to_parent=llm is not None and llm.disallow_transfer_to_parent,
            disallow_transfer_to_peers=llm is not None and llm.disallow_transfer_to_peers,
        )

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._agents.values())

    def spec(self, name: str) -> AgentSpec:
        """What the actor of that agent is given."""
        agent = self._agents[name]
        return AgentSpec(
            definition=agent.alone(),
            children=self.topology[name].children,
            targets=transfer_targets(self.topology, name),
            tool_agents=self.topology[name].tool_agents,
            global_instruction=self.global_instruction(name),
            model=self.model(name),
            plugins=self.plugins,
            limits=self.limits,
        )

    def global_instruction(self, name: str) -> Any:
        """That of the root, or of the agent beside the tree that the agent is or is below of."""
        return getattr(self._tops[name], "global_instruction", "")

    def model(self, name: str) -> Any:
        """The model of an agent: its own, or that of the nearest LLM agent above it; "" when it needs none.

        Above an agent that is a tool is the first agent that has it.

        Raises:
            DefinitionError: an LLM agent has none.
        """
        if not isinstance(self._agents[name], LlmAgent):
            return ""
        model = self._nearest_models[name]
        if model is None:
            raise DefinitionError(f"agent {name!r} has no model: give it one, or an agent above it")
        return model

    @cached_property
    def models(self) -> Mapping[str, Any]:
        """The models of all LLM agents. Raises DefinitionError: one has none."""
        return {name: self.model(name) for name, agent in self._agents.items() if isinstance(agent, LlmAgent)}

    @cached_property
    def _nearest_models(self) -> dict[str, Any]:
        """For every agent the first model from it upwards, or None."""
        found: dict[str, Any] = {}
        # Parents come before their children, and who has an agent as a tool before that.
        for name, agent in self._agents.items():
            above = self._parents[name] or self._asked_by.get(name)
            inherited = found[above] if above is not None else None
            found[name] = (agent.model or inherited) if isinstance(agent, LlmAgent) else inherited
        return found


def _walk(root: Agent) -> Iterator[tuple[Agent, Agent | None]]:
    """Every agent with its parent, parents first. A cycle is found by its first repeated name, so the walk ends."""
    waiting: list[tuple[Agent, Agent | None]] = [(root, None)]
    for agent, parent in waiting:
        yield agent, parent
        waiting += [(child, agent) for child in agent.sub_agents]
