"""The page on security: each row names tests that there are, and each test of what other users get is named."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "security.md"
LINK = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")
TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


def rows() -> list[list[str]]:
    """The rows of the page's tables, without their heads."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in found if row[0] != "what"]


def test_each_row_names_tests_that_there_are() -> None:
    assert len(rows()) > 12
    for what, protection, tests in rows():
        named = LINK.findall(tests)
        assert named, what
        assert protection
        for name, path in named:
            assert name in TEST.findall((ROOT / path).read_text()), f"{path} has no {name}"


def test_each_test_of_another_user_is_named_in_a_row() -> None:
    named = {link for _, _, tests in rows() for link in LINK.findall(tests)}
    for path in ("tests/cluster/users/test_two_users.py", "tests/acceptance/losses/test_private_files.py"):
        for name in TEST.findall((ROOT / path).read_text()):
            assert (name, path) in named
