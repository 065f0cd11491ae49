"""The shape of the tree without the definitions, from which selection and transfer decide."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import msgspec

from actors.errors import UnknownAgentError
from actors.errors.suggestions import did_you_mean

LLM = "llm"
CUSTOM = "custom"


class AgentNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One agent's place in the tree.

    Attributes:
        name: the agent's name.
        kind: llm, custom, sequential, parallel, loop or flow.
        description: the agent's description.
        parent: the name of its parent; None for the root, and for a tool agent, which stands beside the tree.
        children: the names of its children, in order.
        tool_agents: the names of the agents that it has as tools.
        disallow_transfer_to_parent: see LlmAgent.
        disallow_transfer_to_peers: see LlmAgent.
        model: the name of its model, its own or an inherited one, as `name_of` gives it; "" without one.
        tools: the names of its tools.
        workers: of a flow, the agents that work on its tasks, wherever they stand.
    """

    name: str
    kind: str = LLM
    description: str = ""
    parent: str | None = None
    children: tuple[str, ...] = ()
    tool_agents: tuple[str, ...] = ()
    disallow_transfer_to_parent: bool = False
    disallow_transfer_to_peers: bool = False
    model: str = ""
    tools: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()

    @property
    def is_llm(self) -> bool:
        """True for LLM agents, the only ones that transfer control."""
        return self.kind == LLM


class Topology(msgspec.Struct, frozen=True, dict=True):
    """All nodes: those of the tree, the root first and parents before their children; then tool agents with those below them."""

    nodes: tuple[AgentNode, ...]

    @cached_property
    def _by_name(self) -> dict[str, AgentNode]:
        return {node.name: node for node in self.nodes}

    @property
    def root(self) -> AgentNode:
        """The root of the tree."""
        return self.nodes[0]

    def find(self, name: str) -> AgentNode | None:
        """The node with that name, or None."""
        return self._by_name.get(name)

    def __getitem__(self, name: str) -> AgentNode:
        """The node with that name.

        Raises:
            UnknownAgentError: there is none; the message suggests a name.
        """
        node = self._by_name.get(name)
        if node is None:
            raise UnknownAgentError(name, did_you_mean(name, self._by_name))
        return node

    def lineage(self, name: str) -> Iterator[AgentNode]:
        """The node with that name, then its parent, and so on to the root."""
        node: AgentNode | None = self[name]
        while node is not None:
            yield node
            node = self._by_name[node.parent] if node.parent is not None else None

    def is_beside(self, name: str) -> bool:
        """True when the agent stands beside the tree: a tool agent, or one below it."""
        return not self.is_below(name, self.root.name)

    def is_below(self, name: str, ancestor: str) -> bool:
        """True when `name` is `ancestor` or stands anywhere below it."""
        return any(node.name == ancestor for node in self.lineage(name))
