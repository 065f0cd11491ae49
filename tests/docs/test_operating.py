"""The page on operating: its commands are those of `raygrove`, and its figures those of the alert rules and the dashboard."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from typer.main import get_command

from runtime.frontends.console import cli
from tests.docs.pages import ROOT, Page

PAGE = Page(ROOT / "docs" / "operating.md")
FOLDER = ROOT / "examples" / "cluster"
_FIGURE = re.compile(r"raygrove_\w+")


def commands() -> Iterator[str]:
    """Every command of `raygrove` on the page that has all its arguments: those of sessions, and those that are quoted."""
    for block in PAGE.blocks:
        yield from re.findall(r"^\$ (raygrove .*)$", block.code, re.MULTILINE)
    yield from (each.text for each in PAGE.quoted if each.text.startswith("raygrove ") and "…" not in each.text)


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


def test_the_commands_of_the_page_are_ones_that_there_are() -> None:
    for command in {each for each in commands() if len(each.split()) > 2}:
        parse(command)


def test_an_option_that_no_command_has_is_found() -> None:
    with pytest.raises(Exception, match="No such option: --drian"):
        parse("raygrove stop support --drian")


def test_the_figures_to_watch_are_those_of_the_alerts_and_the_dashboard() -> None:
    watched = {name for row in PAGE.rows("What to watch") for name in _FIGURE.findall(row[0])}
    drawn = set(_FIGURE.findall((FOLDER / "alerts.yaml").read_text() + (FOLDER / "dashboard.json").read_text()))
    assert len(watched) > 9
    assert watched <= drawn
