"""What the run of an agent that is a node has given so far, where other agents below it have part in that."""

from __future__ import annotations

from collections.abc import Sequence

from actors.layers.graphs.runs.reader import NodeReader
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue

_OUTPUT, _OUTPUTS = "output", "outputs"
"""Keys of a supervisor's notes: what was given last; and of agents that run side by side, what each has given."""


class OutputSoFar:
    """The output of a run: what was said last; of agents that run side by side the outputs of all, by their names.

    A supervisor notes it each time that it notes how far it is, so it is known after a loss or a pause.

    Args:
        reader: knows what the agent itself has said, which counts more than what those side by side have.
        side_by_side: the agents that run so; none for any other agent.
        progress: the last note, when the run goes on.
    """

    def __init__(self, reader: NodeReader, side_by_side: Sequence[str], progress: JsonMapping) -> None:
        self._reader = reader
        self._side_by_side = side_by_side
        self._outputs: JsonObject = dict(progress.get(_OUTPUTS, {}))
        reader.answer = progress.get(_OUTPUT)

    def add(self, agent: str, output: JsonValue) -> None:
        """An agent has ended that the run has asked for."""
        if output is None:
            return
        if self._side_by_side:
            self._outputs[agent] = output
        else:
            self._reader.answer = output

    def noted(self) -> JsonMapping:
        """The fields for a note of progress."""
        if self._outputs:
            return {_OUTPUTS: dict(self._outputs)}
        return {_OUTPUT: self._reader.answer} if self._reader.answer is not None else {}

    def value(self) -> JsonValue:
        """The output as it is now; None for nothing."""
        if self._outputs and self._reader.answer is None:
            return {agent: self._outputs.get(agent) for agent in self._side_by_side}
        return self._reader.answer
