"""Graphs that cannot run are refused when they are defined, with a sentence that names what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors import DEFAULT_ROUTE, START, Edge, FunctionNode, Graph, JoinNode, RetryConfig, Workflow, node
from actors.errors import DefinitionError


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
