"""README is short: a reader who evaluates the project has five minutes."""

from __future__ import annotations

from tests.docs.pages import ROOT

LONGEST = 180


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= LONGEST
