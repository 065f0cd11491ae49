"""Links and quoted paths of the documentation lead somewhere, and what does not is found."""

from __future__ import annotations

import pytest

from tests.docs.links import broken, unreachable
from tests.docs.pages import ROOT, Page, pages


def test_every_link_and_every_quoted_path_leads_somewhere() -> None:
    assert broken(pages()) == []


def test_every_page_is_reached_from_readme() -> None:
    assert unreachable(pages()) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("[x](docs/nowhere.md)", "README.md:1: the link 'docs/nowhere.md' leads to no file of this repository"),
        ("[x](../outside.md)", "README.md:1: the link '../outside.md' leads to no file of this repository"),
        ("\n![x](nowhere.svg)", "README.md:2: the link 'nowhere.svg' leads to no file of this repository"),
        ("# A: b\n\n[x](#a--b)", "README.md:3: the link '#a--b' leads to no heading of README.md"),
        ("see `actors/nowhere.py`", "README.md:1: there is no 'actors/nowhere.py' in this repository"),
        ("[x](Makefile#L3)", "README.md:1: the link 'Makefile#L3' has an anchor, and only README and docs are looked into"),
    ],
)
def test_what_leads_nowhere_is_found(text: str, finding: str) -> None:
    assert broken([Page(ROOT / "README.md", text)]) == [finding]


@pytest.mark.parametrize(
    "text",
    [
        "[x](https://example.com/nowhere#at-all)",
        "[x](Makefile) and `actors/rules/` and `examples/*.py`",
        "## 5.4 What `a` sees\n\n[x](#54-what-a-sees)",
        "# Twice\n\n# Twice\n\n[x](#twice-1)",
        "`support/session`, `a/b:c` and `and/or` name no folder of ours",
    ],
)
def test_what_leads_somewhere_or_is_no_path_is_passed_over(text: str) -> None:
    assert broken([Page(ROOT / "README.md", text)]) == []


def test_a_page_to_which_no_link_leads_is_found() -> None:
    readme, linked, lost = (Page(ROOT / name, text) for name, text in [("a.md", "[x](b.md)"), ("b.md", ""), ("c.md", "")])
    assert unreachable([readme, linked, lost]) == [ROOT / "c.md"]
