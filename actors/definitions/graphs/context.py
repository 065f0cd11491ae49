"""What a function is given that is a node of a graph."""

from __future__ import annotations

from typing import Any

from actors.definitions.tools.context import CallbackContext
from actors.messages.graph import Route
from actors.messages.json_types import JsonMapping, JsonValue

_NOTHING = object()


class NodeContext(CallbackContext):
    """The run of a node that is a function. State, route and output that it writes go with the next event of the node.

    Attributes:
        node_path: the runs from the outermost graph to the node, such as `wf@1/a@2`.
        run_id: the number of this run of the node, as text.
        attempt_count: of the run, from 1.
        resume_inputs: the user's answers to the questions of this run, by their ids; empty before the first.
        route: the route or routes that the graph takes from the node; None: only edges without a route, or DEFAULT_ROUTE.
    """

    def __init__(self, *, node_path: str, run_id: str, attempt_count: int, resume_inputs: JsonMapping, **where: Any) -> None:
        super().__init__(**where)
        self.node_path = node_path
        self.run_id = run_id
        self.attempt_count = attempt_count
        self.resume_inputs = resume_inputs
        self.route: Route | list[Route] | None = None
        self._output: object = _NOTHING

    @property
    def output(self) -> JsonValue:
        """The value for the nodes after it; None so far. It is set once."""
        return None if self._output is _NOTHING else self._output

    @output.setter
    def output(self, value: JsonValue) -> None:
        if self._output is not _NOTHING:
            raise ValueError(f"the output of {self.node_path} is set already: a run of a node gives one output")
        self._output = value

    @property
    def has_output(self) -> bool:
        """True once the output was set, also to None."""
        return self._output is not _NOTHING
