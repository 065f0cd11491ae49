"""The agents of a deployment: their topology, and what each agent's actor is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from actors.definitions.agents.base import BaseAgent, no_agent
from actors.definitions.agents.delegate_tool import DELEGATED
from actors.definitions.agents.llm import Instruction, LlmAgent
from actors.definitions.agents.plugin import Plugin, checked
from actors.definitions.tree.spec import AgentSpec
from actors.errors import AgentTreeError, DefinitionError
from actors.interfaces.model import Model, name_of
from actors.layers.compaction.definitions import EventsCompactionConfig, with_model_of
from actors.layers.recording.definitions import NO_RECORDING, Recording
from actors.layers.trees.index import AgentIndex
from actors.layers.trees.process_groups import process_groups
from actors.layers.trees.summarisers import summarises
from actors.layers.trees.version import Defined, version_of
from actors.layers.updates.versions import TreeVersion
from actors.messages.limits import DEFAULT_LIMITS, Limits
from actors.messages.topology import GRAPH, LLM, TASK, AgentNode, Topology
from actors.rules.routing.transfer import FIND_TOOL, transfer_targets


class AgentTree:
    """The checked definitions of a deployment. Iterating gives every agent, parents before their children.

    Args:
        plugins: for every agent.
        limits: how large events may be, and how many transfer targets a model gets by name.
        recording: which model calls are recorded.
        compaction: when conversations are summarised; None: they never are.
        is_resumable: clients of ADK get events that say how far agents are, as of an App with `resumability_config`.

    Attributes:
        topology: the shape of the tree, without the definitions.
        process_groups: by agent, for those that cannot live in just any process of the pool.

    Raises:
        AgentTreeError: the agents form no tree; the message names the agent.
        DefinitionError: there is no root, a plugin is none, or `compaction` is of another kind.
    """

    def __init__(
        self,
        root: BaseAgent | None,
        plugins: Sequence[Plugin] = (),
        limits: Limits = DEFAULT_LIMITS,
        recording: Recording = NO_RECORDING,
        compaction: EventsCompactionConfig | None = None,
        *,
        is_resumable: bool = False,
    ) -> None:
        if root is None:
            raise DefinitionError("root agent is required")
        if (wrong := no_agent(root)) is not None:
            raise DefinitionError(f"root_agent must be an agent: {wrong}")
        self.root = root
        self.plugins = checked(plugins)
        self.limits = limits
        self.recording = recording
        self.compaction = with_model_of(root, compaction)
        self.is_resumable = is_resumable
        self._index = AgentIndex(root)
        self._whole: dict[str, BaseAgent] = {}
        for agent in self:
            agent.check_among(self.agents)
        self.topology = Topology.of(self._node(agent) for agent in self)
        self.process_groups = process_groups(self.topology, {name: agent.placement for name, agent in self._index.agents.items()})
        for name in self._index.searchers:
            self._check_needs_no_search(name)

    def __iter__(self) -> Iterator[BaseAgent]:
        return iter(self._index.agents.values())

    @property
    def agents(self) -> Mapping[str, BaseAgent]:
        """The agents by name."""
        return self._index.agents

    def find(self, name: str) -> BaseAgent | None:
        """The agent of that name, or None."""
        return self._index.agents.get(name)

    def _check_needs_no_search(self, name: str) -> None:
        """Check that an agent that brings its own tool `find_agents` will not get the built-in one too."""
        count, limit = len(transfer_targets(self.topology, name)), self.limits.max_listed_targets
        if count > limit:
            raise AgentTreeError(
                f"agent {name!r} may transfer to {count} agents, more than the {limit} that its model is told by name: "
                f"{FIND_TOOL!r} is the tool to find them, so call its own tool otherwise"
            )

    def _node(self, agent: BaseAgent) -> AgentNode:
        """The place of an agent in the tree. Fields that its kind never has are left as they are: agents are many."""
        index, name = self._index, agent.name
        parent, children, asked = index.parents[name], index.children.get(name), index.tool_agents.get(name)
        below = tuple([child.name for child in children]) if children else ()
        tool_agents = tuple([each.name for each in asked]) if asked is not None else ()
        is_resumable = self.is_resumable and agent is self.root
        if isinstance(agent, LlmAgent):
            if agent.mode in DELEGATED:
                self._check_delegated(agent, parent)
            return AgentNode(
                name=name,
                description=agent.description,
                parent=parent,
                children=below,
                tool_agents=tool_agents,
                delegates=tuple([each.name for each in agent.delegates]) if children else (),
                disallow_transfer_to_parent=agent.disallow_transfer_to_parent,
                disallow_transfer_to_peers=agent.disallow_transfer_to_peers,
                model=name_of(self._nearest_models[name]),
                tools=tuple([tool.name for tool in agent.tools]),
                mode=agent.mode or "",
                is_resumable=is_resumable,
            )
        return AgentNode(
            name=name,
            kind=agent.kind,
            description=agent.description,
            parent=parent,
            children=below,
            tool_agents=tool_agents,
            is_resumable=is_resumable,
            **agent.node_fields(),
        )

    def _check_delegated(self, agent: LlmAgent, parent: str | None) -> None:
        """Check that something above the agent has work for its mode. Raises AgentTreeError."""
        above = self._index.agents[parent].kind if parent is not None else ""
        if above in (GRAPH, LLM) or (agent.mode == TASK and agent is self.root):
            return
        raise AgentTreeError(
            f"agent {agent.name!r} has mode={agent.mode!r}, which says how it works as a node of a graph, or for the calls of an "
            "LlmAgent: put it into the edges of a Graph, or below an LlmAgent, or leave the mode out"
        )

    @cached_property
    def version(self) -> TreeVersion:
        """The fingerprints that tell this tree from others. Raises DefinitionError when an LLM agent has no model."""
        models, index = self.models, self._index
        agents = (Defined(self.whole(each), models.get(each.name, ""), self.global_instruction(each.name)) for each in self)
        families = ((index.agents[name], children) for name, children in index.children.items())
        return version_of(self.topology, agents, families, self.plugins, self.recording, self.limits)

    def spec(self, name: str) -> AgentSpec:
        """All that the actor of that agent is given."""
        node = self.topology[name]
        return AgentSpec(
            definition=self.whole(self._index.agents[name]).alone(),
            children=node.children,
            targets=transfer_targets(self.topology, name),
            tool_agents=node.tool_agents,
            global_instruction=self.global_instruction(name),
            model=self.model(name),
            plugins=self.plugins,
            limits=self.limits,
            is_node=node.parent is not None and self.topology[node.parent].kind == GRAPH,
            settings=(self.recording, self.compaction if summarises(self.topology, name) else None),
        )

    def whole(self, agent: BaseAgent) -> BaseAgent:
        """The definition of an agent with what it inherits."""
        # One object each time: packers tell definitions apart by their ids.
        found = self._whole.get(agent.name)
        if found is None:
            found = self._whole[agent.name] = agent.placed_below(self._above(agent.name))
        return found

    def _above(self, name: str) -> Iterator[BaseAgent]:
        while (parent := self._index.parents[name]) is not None:
            yield self._index.agents[parent]
            name = parent

    def global_instruction(self, name: str) -> Instruction:
        """The root's `global_instruction`; for an agent beside the tree, that of the tool agent which it is or stands below."""
        return getattr(self._index.tops[name], "global_instruction", "")

    def model(self, name: str) -> str | Model:
        """The model of an agent: its own, or the one that the nearest LLM agent above it has.

        Above an agent that is a tool stands the first agent that has it.

        Returns:
            A name or an object; "" for an agent that needs no model.

        Raises:
            DefinitionError: an LLM agent has none.
        """
        if not isinstance(self._index.agents[name], LlmAgent):
            return ""
        return self._checked_model(name, self._nearest_models[name])

    @property
    def summary_model(self) -> str | Model:
        """The model that writes summaries, where it is not that of the agent; else ""."""
        return self.compaction.model if self.compaction is not None else ""

    @cached_property
    def models(self) -> Mapping[str, str | Model]:
        """The models of all LLM agents, by agent. Raises DefinitionError when one has none."""
        nearest = self._nearest_models
        return {
            name: nearest[name] or self._checked_model(name, "")
            for name, agent in self._index.agents.items()
            if isinstance(agent, LlmAgent)
        }

    @staticmethod
    def _checked_model(name: str, model: str | Model) -> str | Model:
        """The model of an LLM agent. Raises DefinitionError when it has none."""
        if not model:
            raise DefinitionError(f"agent {name!r} has no model: give it one, or an agent above it")
        return model

    @cached_property
    def _nearest_models(self) -> dict[str, str | Model]:
        """For every agent the first model from it upwards, "" when there is none."""
        found: dict[str, str | Model] = {}
        parents, asked_by = self._index.parents, self._index.asked_by
        for name, agent in self._index.agents.items():
            above = parents[name] or asked_by.get(name)
            inherited = found[above] if above is not None else ""
            found[name] = (agent.model or inherited) if isinstance(agent, LlmAgent) else inherited
        return found
