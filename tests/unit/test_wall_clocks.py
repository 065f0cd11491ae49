"""Where code puts things in order by the clocks of machines is known, since a clock may be set back, and two may differ.

What is listed here says what becomes of it then. What decides who is right, or gives something to somebody, goes by positions in
the log, or by counts (semantics.md section 6, "Clocks").
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.support.sources import sources

TIMES = frozenset({"begun_s", "ended_s", "updated_s", "created_s", "asked_s", "at_s", "timestamp", "created", "lost_s"})
"""Names of times in seconds since the epoch."""

ORDERED = {
    "actors/messages/protocol/sessions.py": "sessions of several stores, each of which lists them by times",
    "actors/layers/listing/messages.py": "turns of several stores, each of which lists them by times",
    "actors/rules/suspects.py": "which of the runs that a Runner may have been lost by is tried first",
    "runtime/frontends/console/bulk.py": "lines that change at the same look",
    "runtime/frontends/console/sessions.py": "lists over sessions of several stores",
    "runtime/frontends/web/adk/spans.py": "a picture",
}
"""Files that sort by times, or take the earliest or the latest, and what that is for."""


def calls_that_order(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """The calls that put something in order, or take the first or the last of it."""
    for node in nodes:
        if isinstance(node, ast.Call):
            name = (
                node.func.id
                if isinstance(node.func, ast.Name)
                else node.func.attr
                if isinstance(node.func, ast.Attribute)
                else ""
            )
            if name in {"sorted", "sort", "min", "max"}:
                yield node


def compares_times(call: ast.Call) -> bool:
    """By a key that is a time; or of times of several, as a comprehension gives them."""
    keys = [keyword.value for keyword in call.keywords if keyword.arg == "key"]
    several = [argument.elt for argument in call.args if isinstance(argument, ast.GeneratorExp | ast.ListComp)]
    return any(isinstance(node, ast.Attribute) and node.attr in TIMES for part in (*keys, *several) for node in ast.walk(part))


def files_that_order_by_times() -> set[str]:
    return {
        each.path.as_posix()
        for each in sources("actors", "runtime")
        for call in calls_that_order(each.nodes)
        if compares_times(call)
    }


def test_where_times_of_machines_decide_about_an_order_is_known() -> None:
    assert files_that_order_by_times() == set(ORDERED)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("sorted(rows, key=lambda row: row.ended_s)", True),
        ("rows.sort(key=lambda row: (row.begun_s, row.id))", True),
        ("max(row.timestamp for row in rows)", True),
        ("sorted(rows, key=lambda row: row.opened_seq)", False),
        ("max(0.0, now_s - row.begun_s)", False),
    ],
)
def test_what_counts_as_an_order_by_times(code: str, expected: bool) -> None:
    (call,) = calls_that_order(ast.walk(ast.parse(code)))
    assert compares_times(call) == expected
