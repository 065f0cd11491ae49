"""Parts of a tree that are small enough to look at, however large the tree is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.errors import AgentTreeError
from actors.layers.flows.rules.tool_names import CREATE_TASKS, is_controllers, refuse_other_question
from actors.messages.flow import CONTROLLER
from actors.messages.topology import AgentNode, Topology
from actors.rules.prompt.agent_search import AgentSearch


@dataclass(frozen=True)
class Outline:
    """An agent in a list of some of the agents.

    Attributes:
        children: the names of its children, in order, as far as they are listed.
        hidden: the number of agents below it, at any depth, that are not listed.
    """

    node: AgentNode
    children: tuple[str, ...] = ()
    hidden: int = 0


def outline(topology: Topology, under: str, depth: int | None, limit: int, offset: int = 0) -> list[Outline]:
    """An agent and the agents below it.

    Args:
        depth: how many levels below the agent are listed; None: all.
        limit: how many agents are listed at most. Upper levels come first, and the children of one agent in order.
        offset: how many children of the agent are passed over, with those below them.

    Returns:
        The agents, children before their parents.

    Raises:
        UnknownAgentError: there is no agent `under`.
    """
    listed, level = {under}, [topology[under]]
    levels = [level]
    while level and (depth is None or len(levels) <= depth) and len(listed) < limit:
        below = [child for node in level for child in node.children]
        first = offset if len(levels) == 1 else 0
        # Only those that are listed are decoded: one agent may have thousands below it.
        level = [topology[child] for child in below[first : first + limit - len(listed)]]
        listed.update(node.name for node in level)
        levels.append(level)
    sizes = sizes_below(topology)
    made: dict[str, Outline] = {}
    for node in (node for level in reversed(levels) for node in level):
        children = tuple(child for child in node.children if child in listed)
        shown = sum(1 + sizes[child] - made[child].hidden for child in children)
        made[node.name] = Outline(node, children, sizes[node.name] - shown)
    return list(made.values())


def search(topology: Topology, text: str, under: str | None, limit: int, **wanted: str | None) -> list[Outline]:
    """The agents that fit, without those below them: with a text the best first, else in the order of the tree.

    Args:
        text: words of names and descriptions; "": any.
        under: look only at this agent and those below it; None: at all agents, those beside the tree too.
        wanted: `kind`, `model` and `tool`: exact names, or None for any.

    Raises:
        UnknownAgentError: there is no agent `under`.
    """
    nodes = _below(topology, under) if under is not None else topology.nodes
    fitting = [node for node in nodes if node.name != CONTROLLER and _fits(node, **wanted)]
    if text.strip():
        found = AgentSearch([node.name for node in fitting], [node.description for node in fitting]).find(text, limit)
        fitting = [fitting[index] for index in found]
    sizes = sizes_below(topology)
    return [Outline(node, hidden=sizes[node.name]) for node in fitting[:limit]]


def _fits(node: AgentNode, kind: str | None = None, model: str | None = None, tool: str | None = None) -> bool:
    return kind in (None, node.kind) and model in (None, node.model) and (tool is None or tool in node.tools)


def _below(topology: Topology, under: str) -> list[AgentNode]:
    found = [topology[under]]
    for node in found:
        found += [topology[child] for child in node.children]
    return found


def sizes_below(topology: Topology) -> dict[str, int]:
    """By agent, how many agents are below it."""
    sizes = dict.fromkeys(topology.names(), 0)
    for node in reversed(topology.nodes):
        if node.parent is not None:
            sizes[node.parent] += 1 + sizes[node.name]
    return sizes


def check_workers(topology: Topology, flow: str, agents: Sequence[str], asking: Sequence[str] = ()) -> None:
    """Check that the agents of a flow are in a deployed tree and can work on its tasks.

    Args:
        asking: those of them that work on interactive tasks.

    Raises:
        UnknownAgentError: one is not in the tree.
        AgentTreeError: one cannot work on tasks; the message names the flow and the agent.
    """
    for name in agents:
        node = topology[name]
        if not node.is_llm:
            raise AgentTreeError(
                f"flow {flow!r} names agent {name!r}, which is of kind {node.kind!r}: only LLM agents can work on tasks"
            )
        for tool in node.tools:
            if is_controllers(tool) and tool != CREATE_TASKS:
                raise AgentTreeError(f"flow {flow!r} names agent {name!r}: the name of its tool {tool!r} is taken in flows")
            if name in asking:
                refuse_other_question(flow, name, tool)
