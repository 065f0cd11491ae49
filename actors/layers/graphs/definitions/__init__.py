"""Graphs: agents and functions as nodes, and the edges between them."""

from actors.layers.graphs.definitions.context import NodeContext
from actors.layers.graphs.definitions.edges import Edge
from actors.layers.graphs.definitions.function_graph import function_graph
from actors.layers.graphs.definitions.graph import FunctionGraph, Graph
from actors.layers.graphs.definitions.nodes import FunctionNode, JoinNode, RetryConfig, node
from actors.layers.graphs.definitions.parallel_worker import ItemError, PartialResults
from actors.layers.graphs.definitions.request_input import RequestInput
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
