"""Each heading of docs/semantics.md has its functions of the model, or a reason why there is none."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT
from tests.model.judge import HISTORY_RULES, STORY_RULES, heading

HERE = Path(__file__).parent
ROWS = dict(re.findall(r"^\| ([\dsc].*?) \| (.+) \|$", (HERE / "rules.md").read_text(), re.MULTILINE))


def headings() -> list[str]:
    """The headings under which rules stand, each with the number of its section: "2 Rewind", "5.1 The step loop"."""
    found = re.findall(r"^(##+) (?:([\d.]+)\. )?(.+)$", (ROOT / "docs" / "semantics.md").read_text(), re.MULTILINE)
    section, named = "", []
    for level, number, text in found:
        section = number if level == "##" else section
        if level == "###":
            named.append(f"{number or section} {text}")
    return named


def test_every_heading_has_functions_or_a_reason() -> None:
    assert [row for row in ROWS if row[0].isdigit()] == headings()
    assert len(ROWS) > 50


def test_every_rule_of_the_judge_stands_under_its_heading() -> None:
    rules = (*STORY_RULES, *HISTORY_RULES)
    assert [rule.__name__ for rule in rules if f"`{rule.__name__}`" not in ROWS.get(heading(rule), "")] == []


def test_every_function_that_a_row_names_is_there() -> None:
    text = "".join(path.read_text() for path in HERE.glob("*.py"))
    assert [name for row in ROWS.values() for name in re.findall(r"`(\w+)`", row) if f"def {name}(" not in text] == []
