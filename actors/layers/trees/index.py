"""All agents of a deployment by name, collected from their definitions and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Never

from actors.definitions.agents.base import BaseAgent
from actors.definitions.agents.llm import LlmAgent
from actors.errors import AgentTreeError
from actors.layers.agent_tool import AgentTool
from actors.layers.flows.definitions.agent import Controller
from actors.rules.routing.transfer import FIND_TOOL


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
