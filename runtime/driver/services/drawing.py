"""Drawings of trees of agents, and of the graphs in them: as text, and for Mermaid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from actors.layers.graphs.rules.shape import DEFAULT_ROUTE, drawn_name
from actors.messages.graph import GraphShape
from actors.messages.topology import GRAPH


class GraphEdge(NamedTuple):
    """An edge of a graph, between nodes by their names. `route`: with which it is followed, in words; "": always."""

    source: str
    target: str
    route: str = ""


class _Drawn(Protocol):
    """An agent of a tree, as drawings need it: see AgentInfo."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def agent_tools(self) -> Sequence[str]: ...

    @property
    def edges(self) -> Sequence[GraphEdge]: ...

    @property
    def children(self) -> Sequence[_Drawn]: ...

    def __iter__(self) -> Iterator[_Drawn]: ...


def drawn_edges(shape: GraphShape) -> tuple[GraphEdge, ...]:
    """The edges of a graph as drawings show them, with one for each route."""
    return tuple(
        GraphEdge(drawn_name(arrow.source), arrow.target, "otherwise" if route == DEFAULT_ROUTE else str(route))
        for arrow in shape.arrows
        for route in arrow.routes or ("",)
    )


def edge_lines(edges: Sequence[GraphEdge]) -> Iterator[str]:
    """The edges of a graph, those of one node and one route in a line: `decide ─again→ write, check`."""
    targets: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        targets.setdefault((edge.source, edge.route), []).append(edge.target)
    for (source, route), names in targets.items():
        arrow = f"─{route}→" if route else "→"
        yield f"{source} {arrow} {', '.join(names)}"


def mermaid(root: _Drawn) -> str:
    """A flowchart of a tree for Mermaid: graphs as boxes with their edges, all other agents with arrows to those below them."""
    return "\n".join(["flowchart TD", *_Flowchart(root).lines()])


class _Flowchart:
    def __init__(self, root: _Drawn) -> None:
        self._root = root
        # Names may be words of Mermaid's own, so the things in the drawing are numbered.
        self._ids = {agent.name: f"a{number}" for number, agent in enumerate(root)}

    def lines(self) -> Iterator[str]:
        """All lines but the first."""
        inside: set[str] = set()
        for agent in self._root:
            if agent.name not in inside:
                yield from self._drawn(agent, 1, inside)
        for agent in self._root:
            here = self._ids[agent.name]
            if agent.kind != GRAPH:
                yield from (f"    {here} --> {self._ids[child.name]}" for child in agent.children)
            yield from (f"    {here} -.-> {self._ids[name]}" for name in agent.agent_tools if name in self._ids)

    def _drawn(self, agent: _Drawn, level: int, inside: set[str]) -> Iterator[str]:
        """An agent alone, or a graph with all that is in it.

        Args:
            inside: takes the agents that are drawn in a graph.
        """
        indent, here, label = "    " * level, self._ids[agent.name], _quoted(f"{agent.name} ({agent.kind})")
        if agent.kind != GRAPH:
            yield f"{indent}{here}[{label}]"
            return
        yield f"{indent}subgraph {here} [{label}]"
        for child in agent.children:
            inside.add(child.name)
            yield from self._drawn(child, level + 1, inside)
        nodes = {child.name: self._ids[child.name] for child in agent.children}
        for edge in agent.edges:
            for name in (edge.source, edge.target):
                if name not in nodes:
                    nodes[name] = f"{here}_{len(nodes)}"
                    shape = f"([{_quoted(name)}])" if name == "START" else f"[{_quoted(name)}]"
                    yield f"{indent}    {nodes[name]}{shape}"
            route = f"|{_quoted(edge.route)}|" if edge.route else ""
            yield f"{indent}    {nodes[edge.source]} -->{route} {nodes[edge.target]}"
        yield f"{indent}end"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "#quot;") + '"'
