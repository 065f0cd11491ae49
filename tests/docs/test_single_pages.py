"""Single pages say what is there: classes, versions, commands, figures, tests, numbers of rules; and README is short."""

from __future__ import annotations

import ast
import re
import shlex
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from runtime.frontends.console import cli
from tests.docs import first_program
from tests.docs.pages import ROOT, Page
from tests.support.sources import sources

DOCS = ROOT / "docs"


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 180


@pytest.mark.full
def test_the_first_program_does_on_ray_what_readme_says(tmp_path: Path) -> None:
    printed, said = first_program.run(sys.executable, tmp_path)
    assert printed == said != ""


def defined_types() -> set[str]:
    """The names of all classes, and of all types that are given a name, in actors and runtime."""
    names: set[str] = set()
    for each in sources("actors", "runtime"):
        names |= {node.name for node in each.nodes if isinstance(node, ast.ClassDef)}
        assigned = [node.targets for node in each.tree.body if isinstance(node, ast.Assign)]
        assigned += [[node.target] for node in each.tree.body if isinstance(node, ast.AnnAssign)]
        names |= {target.id for targets in assigned for target in targets if isinstance(target, ast.Name)}
    return names


def test_every_class_that_the_architecture_names_is_there() -> None:
    pages = ("architecture.md", "extending.md", "layers.md")
    text = "".join((DOCS / name).read_text(encoding="utf-8") for name in pages)
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)\b[^`]*`", text))
    assert len(named) > 40
    assert sorted(named - defined_types()) == []


CHANGELOG = Page(DOCS / "changelog.md")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_the_chapters_of_the_changelog_are_versions_and_the_first_is_the_one_that_is_built() -> None:
    chapters = [heading.text.split(" ")[0] for heading in CHANGELOG.headings[1:]]
    assert chapters[0] == VERSION
    assert chapters == sorted(chapters, key=lambda each: [int(part) for part in each.split(".")], reverse=True)


def test_no_feature_stands_in_the_changelog_twice() -> None:
    rows = Counter(" | ".join(row) for heading in CHANGELOG.headings for row in CHANGELOG.rows(heading.text))
    assert len(rows) > 10
    assert [row for row, times in rows.items() if times > 1] == []


NUMBERS = [
    heading.text.split(" ")[0].rstrip(".") for heading in Page(DOCS / "semantics.md").headings if heading.text[0].isdigit()
]


def test_the_headings_of_the_semantics_are_numbered_in_order() -> None:
    assert sorted(NUMBERS) == NUMBERS
    assert [number for number in NUMBERS if "." not in number] == list("12345678")


def test_every_paragraph_that_a_vector_cites_has_a_heading() -> None:
    cited = set(re.findall(r"§(\d(?:\.\d)?)", (ROOT / "tests" / "vectors.yaml").read_text()))
    assert len(cited) > 10
    assert cited <= set(NUMBERS)


OPERATING = Page(DOCS / "operating.md")
CLUSTER = ROOT / "examples" / "cluster"
_FIGURE = re.compile(r"raygrove_\w+")


def commands() -> Iterator[str]:
    """Every command of `raygrove` on the page that has all its arguments: those of sessions, and those that are quoted."""
    for block in OPERATING.blocks:
        yield from re.findall(r"^\$ (raygrove .*)$", block.code, re.MULTILINE)
    yield from (each.text for each in OPERATING.quoted if each.text.startswith("raygrove ") and "…" not in each.text)


@cache
def of_raygrove() -> Any:
    """All commands, for which typer reads the parameters of each."""
    return get_command(cli.app)


def parse(command: str) -> None:
    """Parse a command, and do nothing else. Raises click's UsageError for one that there is not, or a wrong option."""
    root = of_raygrove()
    name, *arguments = shlex.split(command)[1:]
    found = root.commands[name]
    while hasattr(found, "commands"):
        name, *arguments = arguments
        found = found.commands[name]
    found.make_context(name, arguments)


def test_the_commands_on_operating_are_ones_that_there_are() -> None:
    for command in {each for each in commands() if len(each.split()) > 2}:
        parse(command)


def test_an_option_that_no_command_has_is_found() -> None:
    with pytest.raises(Exception, match="No such option: --drian"):
        parse("raygrove stop support --drian")


def test_the_figures_to_watch_are_those_of_the_alerts_and_the_dashboard() -> None:
    watched = {name for row in OPERATING.rows("What to watch") for name in _FIGURE.findall(row[0])}
    drawn = set(_FIGURE.findall((CLUSTER / "alerts.yaml").read_text() + (CLUSTER / "dashboard.json").read_text()))
    assert len(watched) > 9
    assert watched <= drawn


SECURITY = DOCS / "security.md"
_LINK = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")
_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


def protected() -> list[list[str]]:
    """The rows of the page's tables, without their heads."""
    lines = [line for line in SECURITY.read_text().splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in found if row[0] != "what"]


def test_each_row_on_security_names_tests_that_there_are() -> None:
    assert len(protected()) > 12
    for what, protection, tests in protected():
        named = _LINK.findall(tests)
        assert named, what
        assert protection
        for name, path in named:
            assert name in _TEST.findall((ROOT / path).read_text()), f"{path} has no {name}"


def test_each_test_of_another_user_is_named_in_a_row() -> None:
    named = {link for _, _, tests in protected() for link in _LINK.findall(tests)}
    for path in ("tests/cluster/users/test_two_users.py", "tests/acceptance/losses/test_private_files.py"):
        for name in _TEST.findall((ROOT / path).read_text()):
            assert (name, path) in named
