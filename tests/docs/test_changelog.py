"""The page on what has changed has a chapter for each version, the newest first, and no feature twice."""

from __future__ import annotations

import tomllib
from collections import Counter

from tests.docs.pages import ROOT, Page

PAGE = Page(ROOT / "docs" / "changelog.md")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_the_chapters_are_versions_and_the_first_is_the_one_that_is_built() -> None:
    chapters = [heading.text.split(" ")[0] for heading in PAGE.headings[1:]]
    assert chapters[0] == VERSION
    assert chapters == sorted(chapters, key=lambda each: [int(part) for part in each.split(".")], reverse=True)


def test_no_row_stands_there_twice() -> None:
    rows = Counter(" | ".join(row) for heading in PAGE.headings for row in PAGE.rows(heading.text))
    assert len(rows) > 10
    assert [row for row, times in rows.items() if times > 1] == []
