"""Parts of a tree that are small enough to look at, however large the tree is; as text, and as drawings for Mermaid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from actors.errors import AgentTreeError
from actors.layers.flows.rules.prompt import CREATE_TASKS, is_controllers, refuse_other_question
from actors.layers.graphs.rules.shape import DEFAULT_ROUTE, drawn_name
from actors.messages.flow import CONTROLLER
from actors.messages.graph import GraphShape
from actors.messages.topology import GRAPH, AgentNode, Topology
from actors.rules.routing.transfer import AgentSearch


class _Printer(Protocol):
    """What IPython gives to objects that draw themselves."""

    def text(self, text: str) -> None: ...


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent of the deployed tree. `print` it for a drawing of what is below it.

    Attributes:
        kind: llm, custom, sequential, parallel, loop, graph or flow.
        description: what it is good for.
        parent: the agent above it; None for the root, and for an agent that is only a tool.
        model: the name of its model, its own or an inherited one; "" for an agent without one.
        workers: of a flow, the agents that work on its tasks.
        edges: of a graph, its edges, with one for each route: source, target and route, which is "" where it is always followed.
        child_count: the number of agents right below it.
        children: the agents below it that were asked for.
        hidden: the number of agents below it that are not in `children`, or below those.
        version: of the agent that was asked for, the version of the tree that it is of; else "".
    """

    name: str
    kind: str
    description: str = ""
    parent: str | None = None
    model: str = ""
    tools: Sequence[str] = ()
    agent_tools: Sequence[str] = ()
    workers: Sequence[str] = ()
    edges: Sequence[GraphEdge] = ()
    child_count: int = 0
    children: Sequence[AgentInfo] = ()
    hidden: int = 0
    version: str = ""

    def __iter__(self) -> Iterator[AgentInfo]:
        """It, and all that are listed below it, parents before their children."""
        return (agent for _, agent in self.levels())

    def levels(self) -> Iterator[tuple[int, AgentInfo]]:
        """The same, each with the number of levels that it is below this one."""
        # A stack of its own: a tree may be deeper than Python's recursion limit.
        waiting = [(0, self)]
        while waiting:
            level, agent = waiting.pop()
            yield level, agent
            waiting += [(level + 1, child) for child in reversed(agent.children)]

    def __repr__(self) -> str:
        below = f", children={[child.name for child in self.children[:8]]}" if self.children else ""
        hidden = f", hidden={self.hidden}" if self.hidden else ""
        return f"AgentInfo(name={self.name!r}, kind={self.kind!r}{below}{hidden})"

    def __str__(self) -> str:
        return "\n".join(
            line
            for level, agent in self.levels()
            for line in ("  " * level + agent.line(), *("  " * (level + 1) + edge for edge in edge_lines(agent.edges)))
        )

    def mermaid(self) -> str:
        """The drawing for Mermaid, as a flowchart: graphs with their edges, all other agents with those below them."""
        return mermaid(self)

    def _repr_pretty_(self, printer: _Printer, cycle: bool) -> None:
        """Draw it where it is the value of a notebook's cell."""
        printer.text(str(self))

    def line(self) -> str:
        """It alone, as a line of the drawing."""
        what = ", ".join([self.kind, *([self.model] if self.model else []), *self.tools])
        about = f": {self.description}" if self.description else ""
        unlisted = self.hidden - sum(child.hidden for child in self.children)
        return f"{self.name} ({what}){about}" + (f" [{unlisted} more below]" if unlisted else "")


def outline(topology: Topology, under: str, depth: int | None, limit: int, offset: int = 0) -> list[AgentInfo]:
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
    made: dict[str, AgentInfo] = {}
    for node in (node for level in reversed(levels) for node in level):
        children = [made[child] for child in node.children if child in listed]
        shown = sum(1 + sizes[child.name] - child.hidden for child in children)
        made[node.name] = _info(node, children, sizes[node.name] - shown)
    return list(made.values())


def search(topology: Topology, text: str, under: str | None, limit: int, **wanted: str | None) -> list[AgentInfo]:
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
    return [_info(node, (), sizes[node.name]) for node in fitting[:limit]]


def _info(node: AgentNode, children: Sequence[AgentInfo], hidden: int) -> AgentInfo:
    return AgentInfo(
        name=node.name,
        kind=node.kind,
        description=node.description,
        parent=node.parent,
        model=node.model,
        tools=node.tools,
        agent_tools=node.tool_agents,
        workers=node.workers,
        edges=drawn_edges(node.graph) if node.graph is not None else (),
        child_count=len(node.children),
        children=tuple(children),
        hidden=hidden,
    )


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
