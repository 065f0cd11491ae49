"""The rules are found under the numbers by which they are cited; that code cites no others, the tests of the house see."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, Page

NUMBERS = [
    heading.text.split(" ")[0].rstrip(".")
    for heading in Page(ROOT / "docs" / "semantics.md").headings
    if heading.text[0].isdigit()
]


def test_the_headings_are_numbered_in_order() -> None:
    assert sorted(NUMBERS) == NUMBERS
    assert [number for number in NUMBERS if "." not in number] == list("12345678")


def test_every_paragraph_that_a_vector_cites_has_a_heading() -> None:
    cited = set(re.findall(r"§(\d(?:\.\d)?)", (ROOT / "tests" / "vectors.yaml").read_text()))
    assert len(cited) > 10
    assert cited <= set(NUMBERS)
