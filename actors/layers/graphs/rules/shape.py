"""The shape of a graph: its nodes by name, the arrows between them, and why these were taken or not (semantics.md section 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from actors.messages.graph import Arrow, Route
from actors.messages.shown import Shown

START = "__START__"
"""Where a graph begins."""

DEFAULT_ROUTE = "__DEFAULT__"
"""The route of an arrow that is followed when no other one that asks for a route is."""


TAKEN: frozenset[EdgeBecause] = frozenset({"always", "route", "default"})
"""The reasons for which an arrow is followed."""


class Shape:
    """A graph without what its nodes do.

    Args:
        arrows: in the order in which they were written.
        joins: the nodes that wait for all before them.

    Attributes:
        nodes: the names of all nodes, in the order in which arrows name them.
        joins: by name, the nodes before each join, in the order of the arrows.
    """

    def __init__(self, arrows: Sequence[Arrow], joins: Collection[str]) -> None:
        self.arrows = tuple(arrows)
        self._exits: dict[str, list[Arrow]] = {}
        before: dict[str, dict[str, None]] = {name: {} for name in joins}
        names: dict[str, None] = {}
        for arrow in arrows:
            self._exits.setdefault(arrow.source, []).append(arrow)
            names.update({arrow.source: None, arrow.target: None})
            if arrow.target in before:
                before[arrow.target][arrow.source] = None
        names.pop(START, None)
        self.nodes: Sequence[str] = tuple(names)
        self.joins: Mapping[str, Sequence[str]] = {name: tuple(sources) for name, sources in before.items()}

    def is_terminal(self, node: str) -> bool:
        """True when nothing comes after a node."""
        return node not in self._exits

    def followed(self, node: str, routes: Sequence[Route]) -> list[Arrow]:
        """The arrows to follow when a node has ended: each once, in the order in which they were written."""
        return [arrow for arrow, because in self.judged(node, routes) if because in TAKEN]

    def unknown_routes(self, node: str, routes: Sequence[Route]) -> list[Route]:
        """The routes which a node has said that no edge has, where its edges have routes and none is for all others."""
        known = self.routes_of(node)
        if not known or DEFAULT_ROUTE in known:
            return []
        return [route for route in routes if not any(is_same_route(route, each) for each in known)]

    def routes_of(self, node: str) -> list[Route]:
        """The routes of the edges of a node."""
        return [route for arrow in self._exits.get(node, []) for route in arrow.routes]

    def judged(self, node: str, routes: Sequence[Route]) -> list[tuple[Arrow, EdgeBecause]]:
        """The arrows that lead on from a node, each with why it is followed, or is not, when the node has said some routes."""
        exits = self._exits.get(node, [])
        asked = [any(is_same_route(one, other) for one in arrow.routes for other in routes) for arrow in exits]
        unasked: EdgeBecause = "other" if routes else "silent"
        takes_default = not any(asked)
        found: list[tuple[Arrow, EdgeBecause]] = []
        for arrow, is_asked in zip(exits, asked, strict=True):
            if not arrow.routes:
                found.append((arrow, "always"))
            elif is_asked:
                found.append((arrow, "route"))
            else:
                found.append((arrow, "default" if takes_default and DEFAULT_ROUTE in arrow.routes else unasked))
        return found


def drawn_name(node: str) -> str:
    """The name of a node as people read it."""
    return "START" if node == START else node


def is_same_route(one: Route, other: Route) -> bool:
    """True for the same value of the same type."""
    return type(one) is type(other) and one == other


def flaws(shape: Shape) -> Iterator[str]:
    """Why a graph cannot run, as sentences that follow its name; nothing for a good one."""
    arrows = shape.arrows
    if not arrows:
        return
    if all(arrow.source != START for arrow in arrows):
        yield "has no edge from START, so no node would ever run: add one, (START, first)"
    for arrow in arrows:
        if arrow.target == START:
            yield f"has an edge from {arrow.source!r} to START: nothing comes before START"
        if arrow.source == START and arrow.routes:
            yield f"has an edge from START to {arrow.target!r} with a route: START says none, so it would never be followed"
        if DEFAULT_ROUTE in arrow.routes and len(arrow.routes) > 1:
            yield f"has DEFAULT_ROUTE beside other routes on the edge to {arrow.target!r}: give it an edge of its own"
    yield from _doubled(arrows)
    reached = _reached(shape)
    lost = [node for node in shape.nodes if node not in reached]
    if lost:
        yield f"has nodes that no way from START leads to: {', '.join(map(repr, lost))}"
    circle = _circle([arrow for arrow in arrows if not arrow.routes])
    if circle:
        yield f"runs in a circle for ever: {' → '.join(circle)}. Give one of these edges a route"


def _doubled(arrows: Sequence[Arrow]) -> Iterator[str]:
    said: Counter[tuple[str, str, type[Route], Route]] = Counter()
    pairs = Counter((arrow.source, arrow.target) for arrow in arrows)
    for arrow in arrows:
        pair = arrow.source, arrow.target
        if pairs[pair] > 1 and not arrow.routes:
            yield f"has several edges from {pair[0]!r} to {pair[1]!r}, one without a route: that one is always followed"
            pairs[pair] = 1
        for route in arrow.routes:
            said[(*pair, type(route), route)] += 1
    for (source, target, _, route), times in said.items():
        if times > 1:
            yield f"has several edges from {source!r} to {target!r} with the route {route!r}: keep one"


def _reached(shape: Shape) -> set[str]:
    reached, waiting = {START}, [START]
    after: dict[str, list[str]] = {}
    for arrow in shape.arrows:
        after.setdefault(arrow.source, []).append(arrow.target)
    while waiting:
        for target in after.get(waiting.pop(), ()):
            if target not in reached:
                reached.add(target)
                waiting.append(target)
    return reached


def _circle(arrows: Sequence[Arrow]) -> list[str]:
    """The nodes of one circle of arrows, the first one again at its end; empty without one."""
    after: dict[str, list[str]] = {}
    for arrow in arrows:
        after.setdefault(arrow.source, []).append(arrow.target)
    done: set[str] = set()
    for first in after:
        if first in done:
            continue
        # Depth first, without recursion: a graph may be a chain of thousands.
        path, iterators = [first], [iter(after[first])]
        on_path = {first}
        while path:
            target = next(iterators[-1], None)
            if target is None:
                on_path.discard(path[-1])
                done.add(path.pop())
                iterators.pop()
            elif target in on_path:
                return [*path[path.index(target) :], target]
            elif target not in done and target in after:
                path.append(target)
                on_path.add(target)
                iterators.append(iter(after[target]))
    return []


EdgeBecause = Literal["always", "route", "default", "other", "silent", "patient"]
"""Why an edge was taken or not, see EdgeReason."""


class EdgeReason(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Why an edge of a graph was taken, or was not, when the node before it had ended.

    Attributes:
        graph, path: the graph, and the path of its run.
        source, target: the nodes; START before the first ones.
        taken: the edge was taken.
        because: it has no route ("always"), the node said its route ("route"), or none that another edge asks for ("default").
            It was not taken as the node said other routes ("other") or none ("silent"), or leads on only with an output, of which
            it had none ("patient").
        said: the routes that the node said.
        source_run: the run of the node that ended, such as `a@2`; "" for START.
        target_run: the run that began; "" where none did.
        lacks: of a join that did not begin yet, the nodes for which it waited.
        seq: position of the event with which the node ended; 0 for START.
    """

    graph: str
    path: str
    source: str
    target: str
    taken: bool
    because: EdgeBecause
    said: Sequence[Route] = ()
    source_run: str = ""
    target_run: str = ""
    lacks: Sequence[str] = ()
    seq: int = 0
