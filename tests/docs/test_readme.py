"""README is short: a reader who evaluates the project has five minutes. Its first program runs as it is printed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs import first_program
from tests.docs.pages import ROOT

LONGEST = 180


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= LONGEST


@pytest.mark.full
def test_the_first_program_does_on_ray_what_readme_says(tmp_path: Path) -> None:
    printed, said = first_program.run(sys.executable, tmp_path)
    assert printed == said != ""
