"""The edges of a graph, as they are written and one by one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from actors.definitions.agents.base import BaseAgent
from actors.definitions.tools.base import Tool
from actors.errors import DefinitionError, GraphValidationError, WorkflowConfigurationError
from actors.errors.hints import explains_wrong_calls
from actors.layers.graphs.definitions.nodes import FunctionNode, JoinNode, ParallelWorker, RetryConfig, ToolNode, TriedAgent
from actors.layers.graphs.rules.shape import START
from actors.messages.graph import Route
from actors.messages.shown import shown

T = TypeVar("T")

Node = BaseAgent | TriedAgent | FunctionNode | JoinNode | ParallelWorker
"""What a graph runs."""


class AgentName(NamedTuple):
    """An agent among the nodes, in the actor of the graph: the rest of it is in its own.

    Attributes:
        is_graph: the agent is a graph.
        retry_config, timeout: see TriedAgent.
        sees_conversation: beside its input it sees what the user has said in the session, and what it has answered itself.
        input_class: the pydantic class that its input has to fit; None: it takes any.
        wait_for_output: see FunctionNode.
    """

    name: str
    sees_conversation: bool = False
    is_graph: bool = False
    retry_config: RetryConfig | None = None
    timeout: float | None = None
    input_class: type[BaseModel] | None = None
    wait_for_output: bool = False

    def tried(self, retry_config: RetryConfig | None, timeout: float | None) -> AgentName:
        """The same, tried again and bounded as a node says; as the agent itself does where the node says nothing."""
        return self._replace(retry_config=retry_config or self.retry_config, timeout=timeout or self.timeout)


GraphNode = AgentName | FunctionNode | JoinNode | ParallelWorker
"""A node in the actor of the graph."""


class Edge:
    """From one node to another.

    Args:
        from_node: START, or a node.
        to_node: a node. A plain function or a tool counts as one node for all edges of the graph.
        route: the route, or the list of routes, with which the edge is followed; None: always.
    """

    @explains_wrong_calls
    def __init__(self, from_node: object, to_node: object, route: Route | Sequence[Route] | None = None) -> None:
        self.from_node = from_node
        self.to_node = to_node
        self.route = route

    def __repr__(self) -> str:
        routes = f", route={self.route!r}" if self.route is not None else ""
        return f"Edge({name_of_end(self.from_node)} → {name_of_end(self.to_node)}{routes})"

    @property
    def routes(self) -> tuple[Route, ...]:
        """All routes of the edge; none where it is always followed."""
        if self.route is None:
            return ()
        if isinstance(self.route, bool | int | str):
            return (self.route,)
        return tuple(self.route)


def name_of_end(end: object) -> str:
    """The name of a node of an edge."""
    return end if isinstance(end, str) else str(getattr(end, "name", ""))


class EdgeReader:
    """Reads edges as they are written: chains, fan-outs and routes; each function becomes one node."""

    def __init__(self) -> None:
        self._nodes: dict[int, FunctionNode | ParallelWorker] = {}
        # An id names a function only as long as that lives.
        self._kept: list[object] = []

    def read(self, given: object) -> tuple[Edge, ...]:
        """All edges.

        Args:
            given: a sequence of Edges and of chains, tuples such as `(START, a, (b, c), join, {"yes": d, DEFAULT_ROUTE: e})`. A
                tuple in a chain is all of these nodes, a dictionary says which route leads to which node, or tuple of nodes.

        Raises:
            DefinitionError: it is none of these; the message shows what it is.
        """
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise DefinitionError(f"edges is a list of Edges and of tuples of nodes, not {shown(given)}")
        return tuple(edge for each in given for edge in self._one(each))

    def _one(self, given: object) -> Iterator[Edge]:
        if isinstance(given, Edge):
            yield Edge(self._end(given.from_node), self._end(given.to_node), _checked_route(given.route))
        elif isinstance(given, tuple | list) and len(given) > 1:
            yield from self._chain(given)
        else:
            raise GraphValidationError(
                f"{shown(given)} is no edge: write Edge(from_node=…, to_node=…), or a tuple of two nodes or more"
            )

    def _chain(self, chain: Sequence[object]) -> Iterator[Edge]:
        for before, after in pairwise(chain):
            if isinstance(before, Mapping) and isinstance(after, Mapping):
                raise WorkflowConfigurationError(
                    f"two dictionaries of routes in a row, {shown(before)} and {shown(after)}: no node says the second"
                )
            sources = [one for each in before.values() for one in _all(each)] if isinstance(before, Mapping) else _all(before)
            if isinstance(after, Mapping):
                if not after:
                    raise WorkflowConfigurationError("an empty dictionary of routes leads nowhere: give it routes")
                yield from (
                    Edge(self._end(source), self._end(target), _checked_route(route))
                    for source in sources
                    for route, targets in after.items()
                    for target in _all(targets)
                )
            else:
                yield from (Edge(self._end(source), self._end(target)) for source in sources for target in _all(after))

    def _end(self, given: object) -> object:
        return START if isinstance(given, str) and given in (START, "START") else self.node(given)

    def node(self, given: object) -> Node:
        """A node as it is written, as a node. Raises DefinitionError."""
        if isinstance(given, ParallelWorker) and isinstance(given.node, Tool):
            return self._kept_node(given, lambda worker: worker.of(self.node(worker.node)))
        if isinstance(given, Node):
            return given
        if isinstance(given, Tool):
            return self._kept_node(given, ToolNode)
        if callable(given) and not inspect.isclass(given):
            return self._kept_node(given, FunctionNode)
        raise DefinitionError(
            f"{shown(given)} is no node of a graph: these are agents, functions, tools, FunctionNodes, JoinNodes, and START"
        )

    def _kept_node(self, given: T, make: Callable[[T], FunctionNode | ParallelWorker]) -> FunctionNode | ParallelWorker:
        if id(given) not in self._nodes:
            self._kept.append(given)
            self._nodes[id(given)] = make(given)
        return self._nodes[id(given)]


def _all(given: object) -> Sequence[object]:
    return given if isinstance(given, tuple | list) else (given,)


def _checked_route(route: object) -> Route | tuple[Route, ...] | None:
    if route is None or isinstance(route, bool | int | str):
        return route
    if isinstance(route, Sequence) and route and all(isinstance(each, bool | int | str) for each in route):
        return tuple(route)
    raise WorkflowConfigurationError(f"{shown(route)} is no route: these are texts, whole numbers, bools, and lists of them")
