"""Checks of inputs against the class that a node wants, of routes, and of what nodes write to state (semantics.md section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pydantic

from actors.errors import DefinitionError, StateSchemaError
from actors.errors.hints import problems
from actors.layers.graphs.definitions.edges import AgentName, GraphNode
from actors.layers.graphs.definitions.nodes import FunctionNode
from actors.layers.graphs.rules.progress import Given
from actors.messages.content import Content
from actors.messages.graph import Route
from actors.messages.json_types import JsonValue, StateDelta


class StateSchema:
    """A graph's `state_schema`, ready for use. Keys with a prefix, such as `user:`, are no part of it.

    Args:
        given: a pydantic model.

    Raises:
        DefinitionError: it is none.
    """

    def __init__(self, given: Any) -> None:
        if not (isinstance(given, type) and issubclass(given, pydantic.BaseModel)):
            raise DefinitionError(f"state_schema is a pydantic model, not {given!r:.60}")
        self._types: Mapping[str, pydantic.TypeAdapter[Any]] = {
            name: pydantic.TypeAdapter[Any](cast(Any, field.annotation)) for name, field in given.model_fields.items()
        }

    def check_parameters(self, node: str, names: list[str]) -> None:
        """Check that the state can have what a function takes from it. Raises StateSchemaError."""
        for name in names:
            if name not in self._types:
                raise StateSchemaError(f"node {node!r}", name, self._no_such_key())

    def fitting(self, written: StateDelta) -> StateDelta:
        """The part of it that may be written."""
        return {key: value for key, value in written.items() if self._flaw(key, value) is None}

    def check(self, path: str, written: StateDelta) -> None:
        """Check what a run has written. Raises StateSchemaError."""
        for key, value in written.items():
            if (flaw := self._flaw(key, value)) is not None:
                raise StateSchemaError(path, key, flaw)

    def _no_such_key(self) -> str:
        return f"the state_schema has {', '.join(self._types) or 'nothing'}"

    def _flaw(self, key: str, value: JsonValue) -> str | None:
        if ":" in key or value is None:
            return None
        if key not in self._types:
            return self._no_such_key()
        try:
            self._types[key].validate_python(value)
        except pydantic.ValidationError as error:
            return problems(error)
        return None


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
