"""The page on troubleshooting quotes sentences that the code says, and has those of every store and cluster error."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

from actors.errors import ClusterError, StoreError, tree
from tests.docs.pages import ROOT, Page
from tests.support.sources import sources

PAGE = Page(ROOT / "docs" / "troubleshooting.md")
TABLES = [heading.text for heading in PAGE.headings if heading.text not in ("Troubleshooting", "Lines of Ray")]
"""The headings of tables whose sentences are ours."""

_HOLE = re.compile(r"%(?:\.\d+)?[srdgfi]|\{\{?\d[^{}]*\}\}?")
_QUOTED = re.compile(r"`([^`]+)`")


def sentences() -> list[str]:
    """What the page quotes of the code, with `…` for what differs."""
    found = []
    for table in TABLES:
        for row in PAGE.rows(table):
            quoted = _QUOTED.fullmatch(row[0])
            assert quoted is not None, row[0]
            found.append(quoted[1])
    return found


@cache
def said() -> tuple[str, ...]:
    """Every text in the code, with `…` in place of what it is filled with."""
    return tuple({text for each in sources("actors", "runtime") for text in _texts(each.nodes)})


def _texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n\n" not in node.value:
            yield _HOLE.sub("…", node.value)


def is_said(sentence: str) -> bool:
    """Whether the code has the sentence, or one of which it is a part."""
    return any(sentence.strip("… ") in text for text in said())


def test_each_quoted_sentence_is_in_the_code() -> None:
    wrong = ["agent … cannot be put: it asks for …", "… it asks for … cannot be placed"]
    assert [each for each in [*sentences(), *wrong] if not is_said(each)] == wrong


def test_each_row_says_a_cause_and_what_to_do() -> None:
    rows = [row for table in (*TABLES, "Lines of Ray") for row in PAGE.rows(table)]
    assert len(rows) > 50
    assert [row for row in rows if len(row) != 3 or not all(row)] == []
    assert len({row[0] for row in rows}) == len(rows)


def test_the_sentence_of_each_store_and_cluster_error_is_on_the_page() -> None:
    defined = [each for each in vars(tree).values() if isinstance(each, type)]
    errors = [each for each in defined if issubclass(each, ClusterError | StoreError) and "sentence" in vars(each)]
    assert len(errors) > 12
    on_page = [each.strip("… ") for each in sentences()]
    filled = {error.__name__: _HOLE.sub("…", error.sentence) for error in errors}
    missing = [name for name, sentence in filled.items() if not any(part in sentence for part in on_page)]
    assert missing == ["NoMemoryError"]  # A mistake in a program, and no fault of a deployment.
