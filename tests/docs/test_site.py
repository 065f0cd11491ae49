"""Pages are laid out for the site with links that lead there, and what a built site lacks is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import actors
import runtime
from tests.docs import site
from tests.docs.pages import ROOT, Page

DOCS = ROOT / "docs"


def laid_out(text: str, name: str = "docs/turns.md") -> str:
    return site.carried_over(Page(ROOT / name, text))[0]


@pytest.mark.parametrize(
    ("name", "link", "carried"),
    [
        ("docs/turns.md", "costs.md#budgets", "costs.md#budgets"),
        ("docs/turns.md", "#retry", "#retry"),
        ("docs/turns.md", "index.md#examples", "contents.md#examples"),
        ("docs/turns.md", "../README.md#start", "index.md#start"),
        ("docs/turns.md", "../SECURITY.md", "security.md"),
        ("docs/turns.md", "../examples/hello.py", "source/examples/hello.py.md"),
        ("docs/turns.md", "../examples/testing", "source/examples/testing.md"),
        ("docs/turns.md", "../tests/benchmarks/RESULTS.md", "source/tests/benchmarks/RESULTS.md"),
        ("docs/turns.md", "https://ray.io/docs.md", "https://ray.io/docs.md"),
        ("README.md", "docs/index.md#examples", "contents.md#examples"),
        ("README.md", "docs/killed.svg", "killed.svg"),
        ("tests/benchmarks/RESULTS.md", "turns.svg", "turns.svg"),
        ("tests/benchmarks/RESULTS.md", "../../docs/costs.md", "../../../costs.md"),
    ],
)
def test_a_link_leads_to_the_place_of_its_file_on_the_site(name: str, link: str, carried: str) -> None:
    assert laid_out(f"[`x`]({link})", name) == f"[`x`]({carried})\n"


def test_files_to_which_a_page_links_come_along() -> None:
    _, linked = site.carried_over(
        Page(DOCS / "turns.md", "![x](killed.svg) [y](#z) [e](../examples/hello.py) [h](https://ray.io)")
    )
    assert linked == [DOCS / "killed.svg", ROOT / "examples" / "hello.py"]


def test_headings_keep_the_anchors_of_github_and_code_stays_as_it_is() -> None:
    text = "# What `a` sees\n\n<!-- on Ray -->\n\n```text output\n# no heading [x](costs.md)\n```\n\n# What a sees\n"
    assert laid_out(text) == (
        "# What `a` sees { #what-a-sees }\n\n\n```text\n# no heading [x](costs.md)\n```\n\n# What a sees { #what-a-sees-1 }\n"
    )


def test_what_belongs_to_a_numbered_point_stays_in_it() -> None:
    assert laid_out("1. One:\n\n   ```text\n   x\n   ```\n\n2. Two\n\n- a\n   b\n") == (
        "1. One:\n\n    ```text\n    x\n    ```\n\n2. Two\n\n- a\n   b\n"
    )


def test_every_public_name_is_in_the_reference_once() -> None:
    pages = site.reference()
    assert [title for title, names in pages.items() if not names] == []
    listed = [name for page in pages.values() for name, _ in page]
    names = {*actors.__all__, *runtime.__all__}
    assert len(names) > 100
    assert len(listed) == len(set(listed))
    assert names <= {name.rpartition(".")[2] for name in listed}


def test_the_reference_has_the_services_of_a_runtime() -> None:
    assert {"turns", "sessions", "artifacts", "memory", "users", "schedules"} <= {attribute for attribute, _ in site.services()}


def test_every_page_stands_in_one_group() -> None:
    listed = re.findall(r": ([\w-]+\.md)$", site.navigation({}), re.MULTILINE)
    assert sorted(listed) == sorted(
        ["index.md", "contents.md", "contributing.md", *(p.name for p in DOCS.glob("[!i]*.md")), "inspector.md"]
    )


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ('<a href="nowhere.html">', "a.html: 'nowhere.html' leads to no page"),
        ('<a href="b.html#nothing">', "a.html: 'b.html#nothing' leads to no heading"),
        ('<a href="#nothing">', "a.html: '#nothing' leads to no heading"),
        ('<script src="https://cdn.example.com/x.js"></script>', "a.html loads 'https://cdn.example.com/x.js' from another host"),
        (
            '<link rel="stylesheet" href="//fonts.example.com/x.css">',
            "a.html loads '//fonts.example.com/x.css' from another host",
        ),
        ('<img src="x.png">', "a.html loads 'x.png', which is not there"),
    ],
)
def test_what_leads_nowhere_on_a_built_site_is_found(body: str, finding: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h1 id="here"></h1>')
    assert site.wrong(tmp_path) == [finding]


def test_what_leads_somewhere_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x.png").touch()
    (tmp_path / "a.html").write_text('<p id="p"><a href="#p"><a href="a.html#p"><a href="https://ray.io/x"><img src="x.png">')
    assert site.wrong(tmp_path) == []
