"""Checks what runs are given and say: an input against the class that its node wants, and routes (semantics.md section 8)."""

from __future__ import annotations

import pydantic

from actors.layers.graphs.definitions.edges import AgentName, GraphNode
from actors.layers.graphs.definitions.nodes import FunctionNode
from actors.layers.graphs.rules.progress import Given
from actors.messages.content import Content
from actors.messages.graph import Route


def misfit(node: GraphNode, given: Given) -> pydantic.ValidationError | None:
    """The reason why an input does not fit a node, before its run begins; None: it does, or the run checks it itself.

    Nothing is no input: what takes none runs without.
    """
    wanted = node.input_class if isinstance(node, AgentName | FunctionNode) else None
    if wanted is None or given is None:
        return None
    try:
        as_class(wanted, given)
    except pydantic.ValidationError as error:
        return error
    return None


def as_class(wanted: type[pydantic.BaseModel], given: Given) -> pydantic.BaseModel:
    """The input as the class that a node wants: the user's message is read as JSON. Raises ValidationError (pydantic)."""
    return wanted.model_validate_json(given.text) if isinstance(given, Content) else wanted.model_validate(given)


_ROUTE: pydantic.TypeAdapter[Route | list[Route]] = pydantic.TypeAdapter(Route | list[Route])


def checked_route(route: object) -> Route | list[Route]:
    """A route that a function has said. Raises ValidationError (pydantic) for what can be none."""
    return _ROUTE.validate_python(route)
