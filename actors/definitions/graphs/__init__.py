"""Graphs: agents and functions as nodes, and the edges between them."""

from actors.definitions.graphs.context import NodeContext
from actors.definitions.graphs.edges import Edge
from actors.definitions.graphs.function_graph import function_graph
from actors.definitions.graphs.graph import FunctionGraph, Graph
from actors.definitions.graphs.nodes import FunctionNode, JoinNode, RetryConfig, node
from actors.definitions.graphs.parallel_worker import ItemError, PartialResults
from actors.definitions.graphs.request_input import RequestInput
from actors.rules.graph.shape import DEFAULT_ROUTE, START

Workflow = Graph
"""google-adk's name of a Graph."""

__all__ = [
    "DEFAULT_ROUTE",
    "START",
    "Edge",
    "FunctionGraph",
    "FunctionNode",
    "Graph",
    "ItemError",
    "JoinNode",
    "NodeContext",
    "PartialResults",
    "RequestInput",
    "RetryConfig",
    "Workflow",
    "function_graph",
    "node",
]
