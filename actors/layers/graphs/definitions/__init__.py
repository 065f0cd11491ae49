"""Graphs: agents and functions as nodes, and the edges between them."""

from actors.layers.graphs.definitions.context import NodeContext, RequestInput
from actors.layers.graphs.definitions.edges import Edge
from actors.layers.graphs.definitions.function_graph import function_graph
from actors.layers.graphs.definitions.graph import FunctionGraph, Graph
from actors.layers.graphs.definitions.nodes import FunctionNode, ItemError, JoinNode, PartialResults, RetryConfig, node
from actors.layers.graphs.rules.shape import DEFAULT_ROUTE, START

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
