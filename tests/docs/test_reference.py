"""The tables of the reference say what the code says: every setting, option, error and command once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import typer

from actors import ModelLimits, RunConfig, errors
from actors.errors import RaygroveError, tree
from runtime.frontends.console.cli import app
from runtime.settings import Settings
from tests.docs.pages import ROOT, Page

REFERENCE = Page(ROOT / "docs" / "reference.md")

BY_ITSELF = {
    "max_live_agents": "by cores and memory",
    "num_cpus": "counted by Ray",
    "log_level": "the program's",
    "log_dir": "beside Ray's logs",
    "direct_ports": "any",
    "host_cpus": "0.25 with `autoscaling`, else 0",
}
"""Settings without a default of their own: what stands in its place."""


def as_shown(name: str, default: object) -> str:
    """A default as the tables show it."""
    if default in (None, ""):
        return BY_ITSELF.get(name, "none")
    if default == {}:
        return "`{}`"
    if isinstance(default, int) and not isinstance(default, bool) and name.endswith("_bytes"):
        return f"{default // 2**20} MiB" if default >= 2**20 else f"{default // 2**10} KiB"
    if isinstance(default, int | float) and not isinstance(default, bool):
        return f"{default:,}" if isinstance(default, int) else f"{default:g}"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def named(heading: str) -> list[str]:
    """The first column of the table below a heading, without its backticks."""
    return [row[0].strip("`") for row in REFERENCE.rows(heading)]


def shown(heading: str) -> dict[str, str]:
    """The first two columns of the table below a heading: names and defaults."""
    names = named(heading)
    assert len(set(names)) == len(names)
    return dict(zip(names, (row[1] for row in REFERENCE.rows(heading)), strict=True))


def test_every_setting_is_told_once_with_its_default() -> None:
    fields = Settings.model_fields
    assert shown("Settings") == {f"RAYGROVE_{name.upper()}": as_shown(name, field.default) for name, field in fields.items()}
    assert [name for name, *_ in REFERENCE.rows("Settings") if REFERENCE.text.count(name) != 1] == []


def test_every_option_of_a_turn_is_told_once_with_its_default() -> None:
    fields = msgspec.structs.fields(RunConfig)
    assert shown("Options of a turn") == {field.name: as_shown(field.name, field.default) for field in fields}


def test_every_limit_of_a_model_is_told_once_with_its_default() -> None:
    assert shown("Limits of a model") == {name: as_shown(name, field.default) for name, field in ModelLimits.model_fields.items()}


def test_every_error_is_told_once_below_its_branch() -> None:
    public = {name: each for name, each in vars(errors).items() if inspect.isclass(each) and issubclass(each, RaygroveError)}
    branches = [branch for branch in RaygroveError.__subclasses__() if branch.__module__.startswith(tree.__name__)]
    branches.sort(key=lambda branch: (tree.__doc__ or "").index(f"── {branch.__name__} "))
    assert named("Errors") == [branch.__name__ for branch in branches]
    listed: list[str] = ["RaygroveError", *named("Errors")]
    for branch in branches:
        below = named(branch.__name__)
        assert all(issubclass(public[name], branch) for name in below)
        listed += below
    assert sorted(listed) == sorted(public)


def test_every_command_and_option_is_told_once() -> None:
    tables = REFERENCE.rows("The command raygrove")
    shared = {option for option, *others in tables if len(others) == 2 for option in re.findall(r"--[\w-]+", option)}
    rows = [command.strip("`") for command, *others in tables if len(others) == 1]
    there = dict(_commands(typer.main.get_command(app), "raygrove"))
    assert [path for path in there if not any(f"{row} ".startswith(f"{path} ") for row in rows)] == []
    assert len(rows) == len(there)
    known: list[str] = []
    for path, command in there.items():
        (row,) = [row for row in rows if f"{row} ".startswith(f"{path} ")]
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
        shown = re.findall(r"--[\w-]+", row)
        assert len(shown) == len(set(shown))
        assert set(shown) <= options <= set(shown) | shared, path
        known += options
    assert [option for option in shared if known.count(option) < 2] == []


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    children: Mapping[str, Any] = getattr(command, "commands", {})
    if not children:
        yield path, command
    for name, child in children.items():
        yield from _commands(child, f"{path} {name}")
