"""Which nodes of a graph run next (semantics.md section 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.layers.graphs.rules.progress import GraphProgress, NodeRun
from actors.layers.graphs.rules.shape import DEFAULT_ROUTE, START, Shape
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
    for node in NODES:
        assert [each.number for each in begun if each.node == node] == list(
            range(1, len([b for b in begun if b.node == node]) + 1)
        )


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
    followed = [arrow for node, said in [(START, ()), *((e.node, r) for e, r in ended)] for arrow in shape.followed(node, said)]
    for node in shape.nodes:
        runs = sum(each.node == node for each in begun)
        reached = [arrow.source for arrow in followed if arrow.target == node]
        if node in shape.joins:
            assert runs <= min((reached.count(source) for source in shape.joins[node]), default=0)
            assert (node in progress.starved()) or not reached or runs > 0
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
