"""The part of a tree that ADK's page can draw, and its graph in Graphviz's language.

The page lays graphs out in the browser, which is blocked by thousands of nodes. It finds nodes and edges by the names of agents
and tools.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.driver.services.outline import AgentInfo

MAX_NODES = 500
"""So many nodes a graph has at most: agents, tools, and those that count what is left out."""


@dataclass
class TreePart:
    """Some agents of a tree, parents before their children.

    Attributes:
        tools: by agent, the names of its tools that are shown, agents that are its tools among them.
        hidden: by agent, how many agents below it are not shown, as far as they are below none of its shown children.
        hidden_tools: by agent, how many of its tools are not shown.
    """

    root: AgentInfo
    agents: dict[str, AgentInfo] = field(default_factory=dict)
    tools: dict[str, list[str]] = field(default_factory=dict)
    hidden: dict[str, int] = field(default_factory=dict)
    hidden_tools: dict[str, int] = field(default_factory=dict)

    def children(self, agent: AgentInfo) -> Iterator[AgentInfo]:
        """The shown children of an agent, in order."""
        return (child for child in agent.children if child.name in self.agents)

    def levels(self) -> dict[str, int]:
        """By agent, how far it is below the root."""
        found = {self.root.name: 0}
        for name, agent in self.agents.items():
            found.update((child.name, found[name] + 1) for child in self.children(agent))
        return found

    def size(self) -> int:
        """The number of nodes of its graph."""
        tools = {tool for each in self.tools.values() for tool in each}
        return len(self.agents) + len(tools) + len({*self.hidden, *self.hidden_tools})


def tree_part(root: AgentInfo, seen: Iterable[str] = (), limit: int = MAX_NODES) -> TreePart:
    """The part of a tree to show.

    Args:
        root: the agent at the top, with all agents below it.
        seen: the agents that come first, each after those above it, and then their tools. Other agents follow by levels, and
            last their tools.
        limit: how many nodes the graph may have.
    """
    agents = {agent.name: agent for agent in root}
    order = _order(root, agents, seen)
    below = _below(agents)
    count = min(len(order), limit)
    while True:
        part = _part(root, agents, order[:count], below)
        excess = part.size() - limit
        if excess <= 0 or count == 1:
            return part
        # An agent less is a node less, or two when it had one that counts what is below it.
        count = max(1, count - (excess + 1) // 2)


def _order(root: AgentInfo, agents: Mapping[str, AgentInfo], seen: Iterable[str]) -> list[tuple[str, str]]:
    """Agents, and tools with their agents: what is shown first comes first."""
    first: dict[str, None] = {root.name: None}
    for name in seen:
        first.update(dict.fromkeys(reversed(_lineage(root, agents, name))))
    others = [agent.name for agent in _by_levels(root) if agent.name not in first]
    tools_of_first = [(name, tool) for name in first for tool in _tools(agents[name])]
    tools_of_others = [(name, tool) for name in others for tool in _tools(agents[name])]
    return [*((name, "") for name in first), *tools_of_first, *((name, "") for name in others), *tools_of_others]


def _lineage(root: AgentInfo, agents: Mapping[str, AgentInfo], name: str) -> list[str]:
    """An agent and those above it, up to the root; none when it is not below the root."""
    found: list[str] = []
    while name in agents:
        found.append(name)
        if name == root.name:
            return found
        name = agents[name].parent or ""
    return []


def _by_levels(root: AgentInfo) -> list[AgentInfo]:
    found = [root]
    for agent in found:
        found += agent.children
    return found


def _below(agents: Mapping[str, AgentInfo]) -> dict[str, int]:
    """By agent, how many are below it."""
    sizes = dict.fromkeys(agents, 0)
    for agent in reversed(list(agents.values())):
        sizes[agent.name] += agent.hidden - sum(child.hidden for child in agent.children)
        sizes[agent.name] += sum(1 + sizes[child.name] for child in agent.children)
    return sizes


def _tools(agent: AgentInfo) -> list[str]:
    return list(dict.fromkeys([*agent.tools, *agent.agent_tools]))


def _part(
    root: AgentInfo, agents: Mapping[str, AgentInfo], chosen: Sequence[tuple[str, str]], below: Mapping[str, int]
) -> TreePart:
    part = TreePart(root)
    for name, tool in chosen:
        if not tool:
            part.agents[name] = agents[name]
        else:
            part.tools.setdefault(name, []).append(tool)
    for name, agent in part.agents.items():
        hidden = below[name] - sum(1 + below[child.name] for child in part.children(agent))
        if hidden:
            part.hidden[name] = hidden
        if unlisted := len(_tools(agent)) - len(part.tools.get(name, ())):
            part.hidden_tools[name] = unlisted
    return part


_LIGHT = {"back": "#F8FAFC", "node": "#FFFFFF", "line": "#64748B", "text": "#0F172A"}
_DARK = {"back": "#0F172A", "node": "#1E293B", "line": "#94A3B8", "text": "#F8FAFC"}
_MARKED = "#0F5223"
_ORDERED = ("sequential", "loop")
_LARGE = 40
"""From so many nodes on the children of an agent stand below each other: names are wider than high."""


def dot_of(part: TreePart, *, dark: bool = False, marked: Collection[str] = ()) -> str:
    """The graph of a part of a tree.

    Args:
        dark: in the colors of the page's dark theme.
        marked: agents and tools that are highlighted.
    """
    colors = _DARK if dark else _LIGHT
    is_large = part.size() >= _LARGE
    lines = [
        "digraph {",
        f'graph [bgcolor="{colors["back"]}" pad=0.5 nodesep={0.1 if is_large else 0.4} ranksep=0.8 '
        f"rankdir={'LR splines=line' if is_large else 'TB'}]",
        f'node [shape=rect style="rounded,filled" fillcolor="{colors["node"]}" color="{colors["line"]}" '
        f'fontcolor="{colors["text"]}" fontname=Helvetica fontsize=12]',
        f'edge [color="{colors["line"]}" fontcolor="{colors["line"]}" fontname=Helvetica fontsize=10 arrowhead=vee]',
    ]
    tools = {tool: None for each in part.tools.values() for tool in each}
    for name, agent in part.agents.items():
        label = name if agent.kind == "llm" else f"{name}\n({agent.kind})"
        lines.append(_node(name, label, {"tooltip": agent.kind, **_mark(name, marked)}))
    for tool in tools:
        if tool not in part.agents:
            lines.append(_node(tool, tool, {"tooltip": "tool", "style": "rounded,filled,dashed", **_mark(tool, marked)}))
    for name, agent in part.agents.items():
        numbered = agent.kind in _ORDERED
        for number, child in enumerate(agent.children, 1):
            if child.name in part.agents:
                lines.append(_edge(name, child.name, {"label": str(number)} if numbered else {}))
        lines += [_edge(name, tool, {"style": "dashed"}) for tool in part.tools.get(name, ())]
        if more := _more(part, agent):
            node = f"{name}: {more}"
            lines += [_node(node, more, {"shape": "plaintext", "style": ""}), _edge(name, node, {"style": "dotted"})]
    return "\n".join([*lines, "}"])


def _more(part: TreePart, agent: AgentInfo) -> str:
    """Tell how many agents and tools are left out below an agent; "" for none."""
    agents, tools = part.hidden.get(agent.name, 0), part.hidden_tools.get(agent.name, 0)
    counted = [*([f"{agents:,}"] if agents else []), *([f"{tools:,} tools"] if tools else [])]
    return f"… {' and '.join(counted)} more" if counted else ""


def _mark(name: str, marked: Collection[str]) -> dict[str, str]:
    return {"fillcolor": _MARKED, "color": _MARKED, "fontcolor": "#CCCCCC"} if name in marked else {}


def _node(name: str, label: str, attributes: Mapping[str, str]) -> str:
    return f"{_quoted(name)} [{_listed({'label': label, **attributes})}]"


def _edge(start: str, end: str, attributes: Mapping[str, str]) -> str:
    return f"{_quoted(start)} -> {_quoted(end)}" + (f" [{_listed(attributes)}]" if attributes else "")


def _listed(attributes: Mapping[str, str]) -> str:
    return " ".join(f"{name}={_quoted(value)}" for name, value in attributes.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
