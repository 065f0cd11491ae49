"""How far a run of a graph is, and which nodes run next: a function of the shape and of what has ended, in this order.

Rules of this file:

- A node runs once for each arrow that leads to it and was followed; never twice at a time: what comes meanwhile waits in line.
- A join runs when each node before it has ended since it ran last. Of a node that ended several times the last output counts.
- Nodes begin in the order in which their first trigger came, as many at a time as may run.
- Where one end leads to several nodes, each of these runs on a branch of its own; a join runs on what is common to the branches
  before it.
- The same ends in the same order give the same runs, with the same numbers and branches: so a graph that was lost goes on from
  the ends that its log has.
- An end costs what follows from it, however large the graph is.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from actors.layers.graphs.rules.shape import START, Shape
from actors.messages.codec import plain
from actors.messages.content import Content
from actors.messages.graph import Arrow, Route
from actors.messages.json_types import JsonValue

NOT_STORED = 2**62
"""The place in the log of an event that is being stored: behind all that is known."""

Given = Content | JsonValue
"""What a node is given: the user's message behind START, else what the node before has given."""


class NodeRun(NamedTuple):
    """One run of a node.

    Attributes:
        number: from 1, among the runs of the node in this run of the graph.
        branch: on which its events are; None outside of any.
        given: its input.
        since: the place in the log of what led to it, or of the end of the run before it if that is later: its events come after.
    """

    node: str
    number: int
    branch: str | None
    given: Given
    since: int = 0

    @property
    def name(self) -> str:
        """The run in paths and branches."""
        return f"{self.node}@{self.number}"


class _Trigger(NamedTuple):
    branch: str | None
    given: Given
    seq: int


class GraphProgress:
    """The nodes that run, those that wait, and what has come out so far.

    Args:
        branch: on which the graph runs.
        max_running: so many nodes run at a time; None: any number.
        since: the place in the log after which the run of the graph began.

    Attributes:
        running: the runs that have begun and not ended, by name.
        outputs: of the terminal nodes that gave one, by node; the newest is the last.
    """

    def __init__(self, shape: Shape, branch: str | None, given: Given, max_running: int | None = None, *, since: int = 0) -> None:
        self._shape = shape
        self._max_running = max_running
        self._numbers: defaultdict[str, int] = defaultdict(int)
        self._triggers: dict[str, deque[_Trigger]] = {}
        # The nodes that may begin, in order. A node that runs is not among them.
        self._ready: dict[str, None] = {}
        self._busy: set[str] = set()
        self._arrived: dict[str, dict[str, _Trigger]] = {}
        self._ended_seq: dict[str, int] = {}
        self.running: dict[str, NodeRun] = {}
        self.outputs: dict[str, JsonValue] = {}
        self._end(START, _Trigger(branch, given, since), ())

    @property
    def output(self) -> JsonValue:
        """The output of the last terminal node that gave one; None so far."""
        return next(reversed(self.outputs.values()), None)

    def begin(self) -> list[NodeRun]:
        """The nodes that begin to run now, in order."""
        begun = []
        while self._ready and (self._max_running is None or len(self.running) < self._max_running):
            begun.append(self._begin(next(iter(self._ready))))
        return begun

    def next_names(self) -> list[str]:
        """The names of the runs that begin next, as many as there are: those that a lost graph may have begun."""
        return [f"{node}@{self._numbers[node] + 1}" for node in self._ready]

    @property
    def has_next(self) -> bool:
        """True when some node is to begin, now or when there is room."""
        return bool(self._ready)

    def has_only_next(self, nodes: Collection[str]) -> bool:
        """True when all nodes that are next can begin now, and all are among these; False when none is next."""
        has_room = self._max_running is None or len(self.running) + len(self._ready) <= self._max_running
        return bool(self._ready) and has_room and all(node in nodes for node in self._ready)

    def pause(self, name: str) -> None:
        """A run waits for the user: it has not ended, and another node may run in its place."""
        del self.running[name]

    def _begin(self, node: str) -> NodeRun:
        del self._ready[node]
        trigger = self._triggers[node].popleft()
        self._numbers[node] += 1
        since = max(trigger.seq, self._ended_seq.get(node, 0))
        run = NodeRun(node, self._numbers[node], trigger.branch, trigger.given, since)
        self._busy.add(node)
        self.running[run.name] = run
        return run

    def end(
        self,
        name: str,
        output: JsonValue,
        routes: Sequence[Route],
        branch: str | None = None,
        *,
        leads_on: bool = True,
        seq: int = NOT_STORED,
    ) -> None:
        """A run has ended.

        Args:
            name: of the run. One that has not begun counts as begun: of a graph that goes on the log says what has ended, and the
                nodes may have begun in another order.
            routes: what the node has said.
            branch: to which it has moved all that comes after it; None: it stays where it was.
            leads_on: no node runs because of this end where it is False.
            seq: the place in the log of the event that says so.
        """
        if name not in self.running:
            self._begin(name.rpartition("@")[0])
        run = self.running.pop(name)
        self._busy.discard(run.node)
        self._ended_seq[run.node] = seq
        if self._triggers.get(run.node):
            self._ready[run.node] = None
        if self._shape.is_terminal(run.node):
            if output is not None:
                self.outputs.pop(run.node, None)
                self.outputs[run.node] = output
        elif leads_on:
            self._end(run.node, _Trigger(branch or run.branch, output, seq), routes)

    def led_to(self, node: str) -> int:
        """The number of the last run of a node that has begun, or will: so many have been led to."""
        return self._numbers[node] + len(self._triggers.get(node, ()))

    def starved(self) -> Mapping[str, Sequence[str]]:
        """The joins that some node before them has reached, and that cannot run any more; with the nodes that they lack."""
        return {
            join: [node for node in self._shape.joins[join] if node not in arrived]
            for join, arrived in self._arrived.items()
            if arrived
        }

    def _end(self, node: str, given: _Trigger, routes: Sequence[Route]) -> None:
        arrows = self._shape.followed(node, routes)
        for arrow, branch in zip(arrows, self._branches(arrows, given.branch), strict=True):
            if arrow.target in self._shape.joins:
                self._arrive(arrow.target, node, given)
            else:
                self._trigger(arrow.target, _Trigger(branch, given.given, given.seq))

    def _branches(self, arrows: Sequence[Arrow], branch: str | None) -> Iterator[str | None]:
        """The branch of each node that is led to: of its own where there are several."""
        for arrow in arrows:
            if len(arrows) == 1:
                yield branch
                continue
            segment = f"{arrow.target}@{self.led_to(arrow.target) + 1}"
            yield f"{branch}.{segment}" if branch else segment

    def _arrive(self, join: str, source: str, given: _Trigger) -> None:
        arrived = self._arrived.setdefault(join, {})
        arrived[source] = given
        sources = self._shape.joins[join]
        if len(arrived) < len(sources):
            return
        self._arrived[join] = {}
        outputs: JsonValue = {node: _data(arrived[node].given) for node in sources}
        self._trigger(join, _Trigger(_common([arrived[node].branch for node in sources]), outputs, given.seq))

    def _trigger(self, node: str, trigger: _Trigger) -> None:
        self._triggers.setdefault(node, deque()).append(trigger)
        if node not in self._busy:
            self._ready.setdefault(node)


def _data(given: Given) -> JsonValue:
    """The part of one node before it in a join's output, as plain data: the user's message, too."""
    return plain(given) if isinstance(given, Content) else given


def _common(branches: Sequence[str | None]) -> str | None:
    """The segments with which all branches begin; None when there are none."""
    segments = [branch.split(".") if branch else [] for branch in branches]
    together = takewhile(lambda each: len(set(each)) == 1, zip(*segments, strict=False))
    return ".".join(each[0] for each in together) or None
