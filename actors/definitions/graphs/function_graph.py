"""A node that calls a function, as a tool of an LLM agent (semantics.md section 8)."""

from __future__ import annotations

import copy
import inspect
from typing import Any, ClassVar

import pydantic

from actors.definitions.agents.delegate_tool import as_delegate
from actors.definitions.graphs.edges import Edge
from actors.definitions.graphs.graph import Graph
from actors.definitions.graphs.nodes import INPUT_BINDING, FunctionNode
from actors.rules.graph.shape import START


class FunctionGraph(Graph):
    """A graph of one node that calls a function: it stands for that node, whose path and name are its own.

    Attributes: see Graph. Made of a FunctionNode in the `tools` of an LlmAgent.
    """

    is_function: ClassVar[bool] = True


@as_delegate.register
def _of_graph(given: Graph) -> Graph:
    return given


@as_delegate.register
def _of_function(given: FunctionNode) -> FunctionGraph:
    node = copy.copy(given)
    node.parameter_binding = INPUT_BINDING
    description = inspect.getdoc(node.func) or ""
    return function_graph(Graph(name=node.name, edges=[Edge(START, node)]), arguments_of(given), description)


def function_graph(graph: Graph, arguments: type[pydantic.BaseModel] | None, description: str) -> FunctionGraph:
    """The graph that stands for its only node.

    Args:
        graph: of one node that calls a function, with the agents that the function may run.
        arguments: of a call, as the model is shown them; the node gets them as its input. None: one text.
        description: of the tool.
    """
    return FunctionGraph(
        name=graph.name,
        description=description or f"Runs {graph.name}.",
        input_schema=arguments,
        edges=graph.edges,
        sub_agents=list(graph.sub_agents),
    )


def arguments_of(node: FunctionNode) -> type[pydantic.BaseModel]:
    """The class of the arguments of a call: the parameters of the function, but for its context."""
    called = node.func if inspect.isroutine(node.func) else type(node.func).__call__
    defaults = {name: each.default for name, each in inspect.signature(called).parameters.items()}
    fields: dict[str, Any] = {
        name: (each.annotation, ... if each.is_required else defaults[name]) for name, each in node.parameters.items()
    }
    return pydantic.create_model(node.name, **fields)
