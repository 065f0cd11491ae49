"""The rules are found where code and tests say that they stand."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT, Page

SEMANTICS = Page(ROOT / "docs" / "semantics.md")
_CITED = re.compile(r"semantics\.md,?\s+(?:sections?\s+)?(\d[\d., toand]*)")
_OF_A_VECTOR = re.compile(r"§(\d(?:\.\d)?)")


def cited() -> dict[str, Path]:
    """The paragraphs that code and tests cite, each with one of the files that do."""
    found: dict[str, Path] = {}
    for folder in ("actors", "runtime", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for numbers in _CITED.findall(path.read_text()):
                found.update(dict.fromkeys(re.findall(r"\d(?:\.\d)?", numbers), path))
    vectors = ROOT / "tests" / "vectors.yaml"
    found.update(dict.fromkeys(_OF_A_VECTOR.findall(vectors.read_text()), vectors))
    return found


def test_every_paragraph_that_is_cited_has_a_heading() -> None:
    headings = {heading.text.split(" ")[0].rstrip(".") for heading in SEMANTICS.headings}
    numbers = cited()
    assert len(numbers) > 10
    assert {number: str(path) for number, path in numbers.items() if number not in headings} == {}


def test_the_headings_are_numbered_in_order() -> None:
    numbers = [heading.text.split(" ")[0].rstrip(".") for heading in SEMANTICS.headings if heading.text[0].isdigit()]
    assert numbers == sorted(numbers)
    assert [number for number in numbers if "." not in number] == list("1234567")
