"""Graphs of agents in Graphviz's language, which the page draws. It finds nodes and edges by the agents' and tools' names."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from runtime.driver.services.outline import AgentInfo
from runtime.frontends.web.adk.page.tree_part import TreePart

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
