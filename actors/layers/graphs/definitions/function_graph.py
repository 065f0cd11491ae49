"""A node that calls a function, as a tool of an LLM agent (semantics.md section 8)."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pydantic

from actors.definitions.agents.agent_tools import as_delegate
from actors.definitions.agents.base import Placement
from actors.layers.graphs.definitions.edges import Edge
from actors.layers.graphs.definitions.graph import FunctionGraph, Graph
from actors.layers.graphs.definitions.nodes import INPUT_BINDING, FunctionNode
from actors.layers.graphs.rules.shape import START


@as_delegate.register
def _of_graph(given: Graph) -> Graph:
    return given


@as_delegate.register
def _of_function(given: FunctionNode) -> FunctionGraph:
    node = copy.copy(given)
    node.parameter_binding, node.placement = INPUT_BINDING, None
    description = inspect.getdoc(node.func) or ""
    graph = Graph(name=node.name, edges=[Edge(START, node)])
    return function_graph(graph, arguments_of(given), description, given.placement)


def function_graph(
    graph: Graph, arguments: type[pydantic.BaseModel] | None, description: str, placement: Placement | None = None
) -> FunctionGraph:
    """The graph that stands for its only node.

    Args:
        graph: of one node that calls a function, with the agents that the function may run.
        arguments: of a call, as the model is shown them; the node gets them as its input. None: one text.
        description: of the tool.
        placement: where it runs; None: in a process of the pool.
    """
    return FunctionGraph(
        name=graph.name,
        description=description or f"Runs {graph.name}.",
        input_schema=arguments,
        edges=graph.edges,
        sub_agents=list(graph.sub_agents),
        placement=placement or Placement(),
    )


def arguments_of(node: FunctionNode) -> type[pydantic.BaseModel]:
    """The class of the arguments of a call: the parameters of the function, but for its context."""
    called = node.func if inspect.isroutine(node.func) else type(node.func).__call__
    defaults = {name: each.default for name, each in inspect.signature(called).parameters.items()}
    fields: dict[str, Any] = {
        name: (each.annotation, ... if each.is_required else defaults[name]) for name, each in node.parameters.items()
    }
    return pydantic.create_model(node.name, **fields)
