"""Runs of nodes: where they stand, what comes of them, and who runs those that are below another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from actors.layers.graphs.definitions.edges import GraphNode
from actors.layers.graphs.rules.progress import Given
from actors.messages.event import Event
from actors.messages.graph import NodeInfo, Route
from actors.messages.json_types import JsonValue
from actors.messages.protocol.outcomes import AnyOutcome, Failed


class NodePlace(NamedTuple):
    """A run of a node.

    Attributes:
        name: the run in the graph: `a@2`, or below another run `a@2/b@1`.
        branch: of its events.
        info: says in each event of the run which node it is from.
        since: the place in the log after which its events come.
        is_first: no node has begun before that is still at work, so all that nodes have written is known here.
    """

    name: str
    node: GraphNode
    branch: str | None
    given: Given
    info: NodeInfo
    since: int = 0
    is_first: bool = False


class NodeEnd(NamedTuple):
    """What a node leaves to the graph.

    Attributes:
        events: the last ones of the run, not stored yet; the last of them says that the run is over.
        output: what it gives to the nodes after it; None for nothing.
        waits: what the user has to answer before the run can end, as `call_ids` of Paused; then no event says that it is over.
        is_of_agent: it is that of an agent, whose own events say what it gives.
    """

    events: Sequence[Event]
    output: JsonValue = None
    routes: Sequence[Route] = ()
    waits: Sequence[str] = ()
    is_of_agent: bool = False

    @property
    def is_waiting(self) -> bool:
        """The run waits for the user, and is not over."""
        return bool(self.waits)


class NodeFailed(NamedTuple):
    """A run has failed for good. `event`: says so, and is not stored yet; None: an event says so already."""

    event: Event | None
    failed: Failed


NodeResult = NodeEnd | NodeFailed | AnyOutcome
"""What comes of a run. The outcome of an agent stands for itself only where the graph ends with it, as with a cancelled one."""


class NodeInterruptedError(BaseException):
    """A run that a function waits for has paused, so the function is interrupted: it is called again with the answer.

    Not an Exception, so that the function's own handlers let it pass. Argument: the path of that run.
    """


class KnownRun(NamedTuple):
    """A run below another one, as the log has it.

    Attributes:
        seq: the place of its output, or of its latest question; 0 without one.
        result: how it has ended, or what it waits for and nothing else; None: it has to be run.
    """

    seq: int = 0
    result: NodeEnd | NodeFailed | None = None


class RunsBelow(Protocol):
    """Runs nodes below others, whose ends the graph does not follow."""

    def known(self, name: str) -> KnownRun:
        """A run, as the log has it."""
        ...

    async def run_below(self, place: NodePlace) -> NodeResult:
        """Run a node, store its end, and return the result without the events. Raises FencedError."""
        ...

    def refused(self, place: NodePlace, error: Exception) -> NodeFailed:
        """The failure of what is around a run, because the input of that does not fit."""
        ...

    async def stop(self, node: GraphNode) -> None:
        """Stop the runs of a node that is an agent. Raises FencedError."""
        ...
