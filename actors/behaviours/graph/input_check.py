"""Checks the input of a run against the class that its node wants, before the run begins (semantics.md section 8)."""

from __future__ import annotations

import pydantic

from actors.behaviours.graph.results import NodePlace
from actors.definitions.graphs.edges import AgentName
from actors.definitions.graphs.nodes import FunctionNode
from actors.messages.content import Content
from actors.rules.graph.progress import Given


def misfit(place: NodePlace) -> pydantic.ValidationError | None:
    """The reason why the input of a run of the graph itself does not fit; None: it does, or the run checks it.

    Only a run of the graph is refused before it begins, with an event of the graph: what a function asks for is that function's.
    """
    node = place.node
    wanted = node.input_class if isinstance(node, AgentName | FunctionNode) and "/" not in place.name else None
    if wanted is None:
        return None
    try:
        as_class(wanted, place.given)
    except pydantic.ValidationError as error:
        return error
    return None


def as_class(wanted: type[pydantic.BaseModel], given: Given) -> pydantic.BaseModel:
    """The input as the class that a node wants: the user's message is read as JSON. Raises ValidationError (pydantic)."""
    return wanted.model_validate_json(given.text) if isinstance(given, Content) else wanted.model_validate(given)
