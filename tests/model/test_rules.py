"""Each rule of docs/semantics.md has its functions of the model, or a reason why there is none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT
from tests.model.judge import HISTORY_RULES, STORY_RULES, heading

HERE = Path(__file__).parent
ROWS = re.findall(r"^\| (.+?) (\d+)(?:-(\d+))? \| (.+) \|$", (HERE / "rules.md").read_text(), re.MULTILINE)
"""The heading, the first and the last number below it, and what looks at these rules."""


def rules() -> Iterator[tuple[str, int]]:
    """The rules of the page, each with its heading and its number below that: "2 Rewind", 1."""
    section = name = ""
    number = 0
    for block in re.split(r"\n{2,}", (ROOT / "docs" / "semantics.md").read_text()):
        title = re.match(r"(##+) (?:([\d.]+)\. )?(.+)\n?", block)
        if title is not None:
            section, name = (title[2], "") if title[1] == "##" else (section, f"{title[2] or section} {title[3]}")
            number, block = 0, block[title.end() :]
        items = [item for item in re.split(r"^(?=- |\d+\. )", block, flags=re.MULTILINE) if item and name]
        for _ in items if len(items) > 1 or not block.endswith(":") else ():
            number += 1
            yield name, number


def called() -> set[str]:
    """The functions that the judge and the model of conversations call, directly or through others."""
    names: dict[str, set[str]] = {}
    for path in HERE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.setdefault(node.name, set()).update(_names(node))
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    names.setdefault(ast.unparse(target), set()).update(_names(node))
    found, left = set[str](), {"problems", "Conversation"}
    while left:
        found |= left
        left = set().union(*(names[name] for name in left)) & names.keys() - found
    return found


def _names(node: ast.AST) -> set[str]:
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute)
    }


def test_every_rule_has_a_row() -> None:
    rows = [(name, number) for name, first, last, _ in ROWS for number in range(int(first), int(last or first) + 1)]
    assert [row for row in rows if row[0][0].isdigit()] == list(rules())
    assert len(rows) > 200


def test_every_rule_of_the_judge_stands_under_its_heading() -> None:
    under = {(name, function) for name, *_, by in ROWS for function in re.findall(r"`(\w+)`", by)}
    assert [rule.__name__ for rule in (*STORY_RULES, *HISTORY_RULES) if (heading(rule), rule.__name__) not in under] == []


def test_every_function_of_a_row_is_called_by_the_judge() -> None:
    assert {name for *_, by in ROWS for name in re.findall(r"`(\w+)`", by)} - called() == set()


def test_every_row_without_a_function_says_which_tests_look() -> None:
    paths = {by: re.findall(r"tests/[\w./]*\w", by) for *_, by in ROWS}
    assert [by for by, found in paths.items() if by.startswith("none") and not found and " it is " not in by] == []
    assert [path for found in paths.values() for path in found if not (ROOT / path).exists()] == []
