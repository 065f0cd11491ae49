"""The agents of a deployment: collected from their definitions and checked, their topology, and what each actor is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Never

from actors.definitions.agents.agent_tools import DELEGATED
from actors.definitions.agents.base import BaseAgent, no_agent
from actors.definitions.agents.callbacks import Plugin, checked
from actors.definitions.agents.llm import Instruction, LlmAgent
from actors.definitions.spec import AgentSpec
from actors.errors import AgentTreeError, DefinitionError
from actors.interfaces.model import Model, name_of
from actors.layers.agent_tool import AgentTool
from actors.layers.compaction.definitions import EventsCompactionConfig, with_model_of
from actors.layers.flows.definitions.agent import Controller
from actors.layers.recording.messages import NO_RECORDING, Recording
from actors.layers.trees.process_groups import process_groups
from actors.layers.trees.version import Defined, version_of
from actors.layers.updates.versions import TreeVersion
from actors.messages.config import DEFAULT_LIMITS, Limits
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


class AgentIndex:
    """The agents of the tree, then the agents that only are tools with those below them, then the controller of flows.

    Parents come before their children, and an agent that has another one as a tool comes before that one.

    Attributes:
        parents: the name of each agent's parent; None for the root, for tool agents and for the controller.
        tops: for every agent the one without a parent that it is or stands below.
        tool_agents: for every agent that has others as tools: those, in order.
        asked_by: for every agent beside the tree that is a tool: the first agent that has it.
        searchers: LLM agents that bring along a tool called `find_agents`.
        children: of every agent that has others below it: those, in order.

    Raises:
        AgentTreeError: a name is given twice, or an agent has two parents; the message names the agent.
    """

    def __init__(self, root: BaseAgent) -> None:
        self.agents: dict[str, BaseAgent] = {}
        self.parents: dict[str, str | None] = {}
        self.tops: dict[str, BaseAgent] = {}
        self.tool_agents: dict[str, list[BaseAgent]] = {}
        self.asked_by: dict[str, str] = {}
        self.searchers: list[str] = []
        self.children: dict[str, Sequence[BaseAgent]] = {}
        for agent, parent in self._walk(root):
            self._add(agent, parent)
        self._add_tool_agents()
        # For flows that are run without being part of the tree. No agent of a user can have its name.
        controller = Controller()
        self._put(controller, controller.name, None)

    def _add_tool_agents(self) -> None:
        """Add the agents that are tools and not in the tree, and those below them, each once, however many agents have it."""
        in_tree = set(self.agents)
        owners = list(self.agents.values())
        # The list grows while it is walked: tool agents may have tool agents.
        for owner in owners:
            for asked in self.tool_agents.get(owner.name, ()):
                if asked.name in in_tree and self.agents[asked.name] is asked:
                    continue
                if asked.name in self.asked_by and self.agents[asked.name] is asked:
                    continue
                for agent, parent in self._walk(asked):
                    self._add(agent, parent, asked_by=owner.name)
                    owners.append(agent)
                self.asked_by[asked.name] = owner.name

    def _add(self, agent: BaseAgent, parent: str | None, asked_by: str = "") -> None:
        name = agent.name
        if name in self.agents:
            self._refuse(agent, parent, asked_by)
        self._put(agent, name, parent)
        is_llm = isinstance(agent, LlmAgent)
        for tool in getattr(agent, "tools", ()):
            if _asks_agent(tool.__class__):
                self.tool_agents.setdefault(name, []).append(tool.agent)
            if is_llm and tool.name == FIND_TOOL:
                self.searchers.append(name)

    def _refuse(self, agent: BaseAgent, parent: str | None, asked_by: str) -> Never:
        """Say why an agent cannot be here: its name is known. Raises AgentTreeError."""
        name = agent.name
        first = self.parents[name]
        if self.agents[name] is not agent:
            places = _place(first, self.asked_by.get(name, "")), _place(parent, asked_by)
            raise AgentTreeError(
                f"the name {name!r} is given twice, to {' and to '.join(places)}: names are unique in a tree, so rename one"
            )
        if first == parent:
            raise AgentTreeError(f"agent {name!r} is listed twice below {first!r}")
        raise AgentTreeError(f"agent {name!r} has two parents, {first!r} and {parent!r}: make one object for each place")

    def _put(self, agent: BaseAgent, name: str, parent: str | None) -> None:
        self.agents[name] = agent
        self.parents[name] = parent
        self.tops[name] = self.tops[parent] if parent is not None else agent

    def _walk(self, root: BaseAgent) -> Iterator[tuple[BaseAgent, str | None]]:
        """Every agent with the name of its parent, parents first. In a cycle the caller raises at the first repeated name, so
        the walk ends."""
        waiting: list[tuple[BaseAgent, str | None]] = [(root, None)]
        for agent, parent in waiting:
            yield agent, parent
            if children := agent.children:
                name = agent.name
                self.children[name] = children
                waiting += [(child, name) for child in children]


@lru_cache(1_024)
def _asks_agent(kind: type) -> bool:
    # To ask an abstract class about each object takes ten times as long: a tree may have a hundred thousand agents.
    return issubclass(kind, AgentTool)


def _place(parent: str | None, asked_by: str) -> str:
    """An agent by its place in the tree."""
    if parent is not None:
        return f"a child of {parent!r}"
    return f"a tool of {asked_by!r}" if asked_by else "the root"


_PARALLEL = "parallel"


def summarises(topology: Topology, agent: str) -> bool:
    """True for an agent that summarises: none below a graph, and below a ParallelAgent those of its first child only.

    What works for the calls of another agent, and tool agents with all that is below them, see another conversation.
    """
    node = topology[agent]
    while node.parent is not None:
        above = topology[node.parent]
        if above.kind == GRAPH or node.name in above.delegates or (above.kind == _PARALLEL and above.children[0] != node.name):
            return False
        node = above
    return node.name == topology.root.name


@dataclass(frozen=True)
class Adapted:
    """What `from_adk` has made. `Runtime(adapted, …)` takes it whole.

    Attributes:
        root_agent: the tree, for `Runtime(root_agent, …)`.
        plugins: those of the App, for `Runtime(…, plugins=…)`.
        events_compaction_config: that of the App, for `Runtime(…, events_compaction_config=…)`; None without one.
        notes: what is done in another way than by ADK, a sentence each; empty for most trees.
        is_resumable: the App is resumable, so clients of ADK get events that say how far agents are.
    """

    root_agent: BaseAgent
    plugins: Sequence[Plugin] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    events_compaction_config: EventsCompactionConfig | None = None
    is_resumable: bool = False
