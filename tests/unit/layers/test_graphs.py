"""Which graphs are refused when they are defined, and which nodes of one run next (semantics.md section 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import DEFAULT_ROUTE, START, Edge, FunctionNode, Graph, JoinNode, RetryConfig, Workflow, node
from actors.errors import DefinitionError
from actors.layers.graphs.rules.progress import GraphProgress, NodeRun
from actors.layers.graphs.rules.shape import Shape
from actors.messages.graph import Arrow
from tests.support.counted_lines import counted_lines
from tests.support.tries import tries

MOST_ENDS = 60
NODES = "abcdef"

arrows = st.lists(
    st.builds(
        Arrow,
        st.sampled_from([START, *NODES]),
        st.sampled_from(list(NODES)),
        st.sampled_from([(), ("x",), ("y",), ("x", "y"), (DEFAULT_ROUTE,)]),
    ),
    min_size=1,
    max_size=12,
)
"""Edges as they come: also graphs that a definition would refuse."""

graphs = st.builds(Shape, arrows, st.sets(st.sampled_from("def")))
said = st.lists(st.sampled_from([(), ("x",), ("y",), ("z",)]), min_size=MOST_ENDS, max_size=MOST_ENDS)


def run(
    shape: Shape, routes: Sequence[Sequence[Any]], order: st.DataObject, most: int | None = None
) -> tuple[GraphProgress, list[tuple[NodeRun, Sequence[Any]]], list[NodeRun]]:
    """A graph to its end, or to so many ends: the nodes end in any order.

    Returns:
        The progress; what has ended, with the routes; and all that has begun.
    """
    progress = GraphProgress(shape, None, "given", most)
    begun = progress.begin()
    ended: list[tuple[NodeRun, Sequence[Any]]] = []
    while progress.running and len(ended) < MOST_ENDS:
        name = order.draw(st.sampled_from(sorted(progress.running)))
        end = progress.running[name], routes[len(ended)]
        ended.append(end)
        progress.end(name, f"of {name}", end[1])
        begun += progress.begin()
    return progress, ended, begun


@settings(max_examples=tries(100))
@given(graphs, said, st.data())
def test_a_node_never_runs_twice_at_a_time_and_its_runs_are_counted(shape: Shape, routes: Any, data: st.DataObject) -> None:
    progress, _, begun = run(shape, routes, data)
    names = [each.node for each in progress.running.values()]
    assert len(set(names)) == len(names)
    for name in NODES:
        numbers = [each.number for each in begun if each.node == name]
        assert numbers == list(range(1, len(numbers) + 1))


@settings(max_examples=tries(100))
@given(graphs, said, st.data(), st.integers(1, 3))
def test_a_lost_graph_goes_on_from_its_ends_with_the_same_runs(shape: Shape, routes: Any, data: st.DataObject, most: int) -> None:
    _, ended, begun = run(shape, routes, data, most)
    at = data.draw(st.integers(0, len(ended)))
    again = GraphProgress(shape, None, "given", most)
    for done, route in ended[:at]:
        again.end(done.name, f"of {done.name}", route)
    known = {each.name: each for each in begun}
    may_have_begun = set(again.next_names())
    after = again.begin()
    assert {each.name for each in after} <= may_have_begun
    for done, route in ended[at:]:
        again.end(done.name, f"of {done.name}", route)
        after += again.begin()
    # With the same numbers, branches and inputs.
    assert [each for each in after if each.name in known and each != known[each.name]] == []


@settings(max_examples=tries(100))
@given(graphs, said, st.data())
def test_each_arrow_that_is_followed_runs_its_node_once_and_a_join_when_all_have_come(
    shape: Shape, routes: Any, data: st.DataObject
) -> None:
    progress, ended, begun = run(shape, routes, data)
    if progress.running:
        return
    followed = [arrow for name, said in [(START, ()), *((e.node, r) for e, r in ended)] for arrow in shape.followed(name, said)]
    for name in shape.nodes:
        runs = sum(each.node == name for each in begun)
        reached = [arrow.source for arrow in followed if arrow.target == name]
        if name in shape.joins:
            assert runs <= min((reached.count(source) for source in shape.joins[name]), default=0)
            assert (name in progress.starved()) or not reached or runs > 0
        else:
            assert runs == len(reached)


@given(st.integers(1, 50))
def test_as_many_run_at_a_time_as_may(most: int) -> None:
    shape = Shape([Arrow(START, f"n{number}") for number in range(40)], ())
    progress = GraphProgress(shape, None, None, most)
    assert len(progress.begin()) == min(most, 40)
    progress.pause("n0@1")
    # One that waits for the user takes no place.
    assert len(progress.begin()) == (1 if most < 40 else 0)


def test_an_end_costs_what_follows_from_it() -> None:
    def lines(nodes: int) -> int:
        edges = [Arrow(START, "n0"), *(Arrow(f"n{i}", f"n{i + 1}") for i in range(nodes))]
        progress = GraphProgress(Shape(edges, ()), None, None)
        progress.begin()
        counts = Counter[str]()
        with counted_lines(counts):
            progress.end("n0@1", 1, ())
            progress.begin()
        return counts["lines"]

    assert lines(10) == lines(1_000)


def test_the_events_of_a_run_come_after_what_led_to_it_and_after_the_run_before_it() -> None:
    shape = Shape([Arrow(START, "a"), Arrow(START, "b"), Arrow("a", "c"), Arrow("b", "c"), Arrow("a", "j"), Arrow("b", "j")], "j")
    progress = GraphProgress(shape, None, "given", since=3)
    assert [(run.name, run.since) for run in progress.begin()] == [("a@1", 3), ("b@1", 3)]
    progress.end("b@1", None, (), seq=5)
    assert [(run.name, run.since) for run in progress.begin()] == [("c@1", 5)]
    progress.end("a@1", None, (), seq=6)
    # The join was led to by the last of both; the second run of `c` waits for the end of the first.
    assert [(run.name, run.since) for run in progress.begin()] == [("j@1", 6)]
    progress.end("c@1", None, (), seq=9)
    assert [(run.name, run.since) for run in progress.begin()] == [("c@2", 9)]


def a() -> None:
    """A node."""


def b() -> None:
    """A node."""


def c() -> None:
    """A node."""


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(a, b)], "has no edge from START"),
        ([(START, a), (b, c)], "no way from START leads to: 'b', 'c'"),
        ([(START, a, {"x": START, "y": b})], "to START: nothing comes before START"),
        ([(START, {"x": a})], "START says none"),
        ([(START, a, b, a)], "in a circle for ever: a → b → a"),
        ([(START, a), (a, a)], "in a circle for ever: a → a"),
        ([(START, a), (START, a)], "several edges from '__START__' to 'a'"),
        ([(START, a, {"x": b}), Edge(a, b, ["y", "x"])], "with the route 'x': keep one"),
        ([(START, a), Edge(a, b, ["x", DEFAULT_ROUTE])], "DEFAULT_ROUTE beside other routes"),
        ([(START, a, {"x": b}, {"y": c})], "two dictionaries of routes in a row"),
        ([(START, a, {})], "an empty dictionary of routes"),
        ([(START, a, {1.5: b})], "1.5 is no route"),
        ([(START, 3)], "3 is no node of a graph"),
        ([(START,)], "is no edge: write Edge"),
        ("START", "edges is a list"),
        ([(START, FunctionNode(a, name="n"), FunctionNode(b, name="n"))], "two nodes called 'n'"),
    ],
)
def test_a_graph_that_cannot_run_is_refused(edges: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Graph(name="wf", edges=edges)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FunctionNode(3), "FunctionNode needs a function, not 3"),  # type: ignore[arg-type]
        (lambda: FunctionNode(lambda: 1), "'<lambda>' is no name of a node"),
        (lambda: JoinNode("a b"), "'a b' is no name of a node"),
        (lambda: FunctionNode(a, timeout=0), "a number of seconds above 0"),
        (lambda: FunctionNode(a, retry_config=3), "retry_config is a RetryConfig, not 3"),  # type: ignore[arg-type]
        (lambda: FunctionNode(lambda *args: 1, name="n"), "parameter 'args' must be an ordinary named one"),
        (lambda: node(JoinNode("j")), r"node\(\) makes functions nodes"),
        (lambda: RetryConfig(max_attempts=-1), "max_attempts"),
        (lambda: node(a, max_parallel_workers=2), "for nodes with parallel_worker=True"),
        (lambda: node(a, parallel_worker=True, max_parallel_workers=0), "at least 1, not 0"),
        (lambda: Graph(name="wf", edges=[(START, a)], max_concurrency=0), "max_concurrency"),
    ],
)
def test_what_stands_in_a_graph_is_checked(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


def test_the_name_of_google_adk_is_the_same_class() -> None:
    assert Workflow is Graph


def test_a_chain_a_fan_out_and_routes_are_edges() -> None:
    join = JoinNode("join")
    graph = Graph(name="wf", edges=[(START, a, (b, c), join), (join, {"again": a, DEFAULT_ROUTE: FunctionNode(a, name="end")})])
    assert [(arrow.source, arrow.target, arrow.routes) for arrow in graph.shape.arrows] == [
        (START, "a", ()),
        ("a", "b", ()),
        ("a", "c", ()),
        ("b", "join", ()),
        ("c", "join", ()),
        ("join", "a", ("again",)),
        ("join", "end", (DEFAULT_ROUTE,)),
    ]
    assert graph.shape.joins == {"join": ("b", "c")}


@pytest.mark.parametrize(("failed", "expected"), [(1, (1.0, 1.0)), (2, (2.0, 2.0)), (9, (60.0, 60.0))])
def test_each_wait_is_longer_than_the_one_before(failed: int, expected: tuple[float, float]) -> None:
    retry = RetryConfig(jitter=0)
    assert (retry.delay_s(failed, 0), retry.delay_s(failed, 1)) == expected
    assert RetryConfig(jitter=0.5).delay_s(1, 0) == 0.5
    assert RetryConfig(jitter=0.5).delay_s(1, 1) == 1.5
