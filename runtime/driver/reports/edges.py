"""Why the edges of graphs were taken in a turn: its events, followed again by the rules by which its graphs went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from actors.layers.graphs.behaviour.node_attempt import NodeAttempt
from actors.layers.graphs.rules.progress import GraphProgress
from actors.layers.graphs.rules.shape import START, TAKEN, EdgeBecause, EdgeReason, Shape, drawn_name
from actors.layers.graphs.rules.sight import UserAnswers
from actors.messages.event import USER, Event
from actors.messages.graph import Arrow, GraphShape, NodeInfo, Route
from actors.messages.topology import GRAPH, Topology


class TurnEdges:
    """The edges that the graphs of one turn have come to, in the order in which the nodes before them ended.

    Args:
        topology: the tree, which tells the shapes of its graphs.

    Attributes:
        reasons: why each of them was taken, or not.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._runs: dict[str, _GraphRun] = {}
        self._answers = UserAnswers()
        self.reasons: list[EdgeReason] = []

    def add(self, event: Event) -> None:
        """Take in the next event of the turn."""
        if event.author == USER:
            self._answers.add(event)
        if event.node_info is None:
            return
        for path, graph, shape in self._graphs(event.node_info.path):
            run = self._runs.get(path)
            if run is None:
                run = self._runs[path] = _GraphRun(graph, path, shape, self._answers)
                self.reasons += run.begin()
            self.reasons += run.add(event, event.node_info)

    def _graphs(self, path: str) -> Iterator[tuple[str, str, GraphShape]]:
        """The runs of graphs that a run is in, the outermost first, each with its path and shape."""
        end = path.find("/")
        while end >= 0:
            above = path[:end]
            name = above.rpartition("/")[2].partition("@")[0]
            node = self._topology.find(name)
            if node is not None and node.kind == GRAPH and node.graph is not None:
                yield above, name, node.graph
            end = path.find("/", end + 1)


class _GraphRun:
    """One run of a graph, as far as its events tell."""

    def __init__(self, graph: str, path: str, told: GraphShape, answers: UserAnswers) -> None:
        self._graph = graph
        self._path = path
        self._shape = Shape(told.arrows, told.joins)
        self._patient = frozenset(told.patient)
        self._answers = answers
        self._attempts: dict[str, NodeAttempt] = {}
        self._progress = GraphProgress(self._shape, None, None)

    def begin(self) -> list[EdgeReason]:
        """The edges from START."""
        return self._reasons(START, "", (), 0, {})

    def add(self, event: Event, info: NodeInfo) -> list[EdgeReason]:
        """Take in an event of a run in it. Returns the edges that it has come to: those from a node that ended."""
        name, _, below = info.path.removeprefix(f"{self._path}/").partition("/")
        if name.rpartition("@")[0] not in self._shape.nodes:
            return []
        attempt = self._attempts.setdefault(name, NodeAttempt())
        if below:
            attempt.add_below(event, self._answers)
            return []
        if info.attempt or (event.error_code is not None and not info.has_ended):
            # It failed, and is tried again, or the turn is run on from here.
            self._attempts[name] = NodeAttempt(after_seq=event.seq)
            return []
        attempt.add(event, self._answers)
        if not info.has_ended:
            return []
        del self._attempts[name]
        return self._end(name, attempt, event, info)

    def _end(self, name: str, attempt: NodeAttempt, event: Event, info: NodeInfo) -> list[EdgeReason]:
        node, said = name.rpartition("@")[0], attempt.routes
        if name not in self._progress.next_names():
            # The tree has another shape by now: what follows cannot be told from it.
            return []
        output = attempt.output if info.handed_on is None else info.handed_on
        leads_on = bool(node not in self._patient or output is not None or said)
        before = {arrow.target: self._progress.led_to(arrow.target) for arrow, _ in self._shape.judged(node, said)}
        self._progress.end(name, output, said, event.branch, leads_on=leads_on)
        if not leads_on:
            return [self._reason(arrow, name, said, event.seq, "patient") for arrow, _ in self._shape.judged(node, said)]
        return self._reasons(node, name, said, event.seq, before)

    def _reasons(self, node: str, run: str, said: Sequence[Route], seq: int, before: Mapping[str, int]) -> list[EdgeReason]:
        """Why each edge from a node was taken or not.

        Args:
            before: how many runs of each next node had been led to before.
        """
        starved = self._progress.starved()
        led_to = Counter(before)
        found = []
        for arrow, because in self._shape.judged(node, said):
            target, lacks = "", tuple[str, ...]()
            if because in TAKEN and self._progress.led_to(arrow.target) > led_to[arrow.target]:
                led_to[arrow.target] += 1
                target = f"{arrow.target}@{led_to[arrow.target]}"
            elif because in TAKEN:
                lacks = tuple(starved.get(arrow.target, ()))
            found.append(self._reason(arrow, run, said, seq, because, target, lacks))
        return found

    def _reason(
        self,
        arrow: Arrow,
        run: str,
        said: Sequence[Route],
        seq: int,
        because: EdgeBecause,
        target_run: str = "",
        lacks: Sequence[str] = (),
    ) -> EdgeReason:
        return EdgeReason(
            graph=self._graph,
            path=self._path,
            source=drawn_name(arrow.source),
            target=arrow.target,
            taken=because in TAKEN,
            because=because,
            said=tuple(said),
            source_run=run,
            target_run=target_run,
            lacks=lacks,
            seq=seq,
        )
