"""What the plugin costs a project that uses none of it: pytest imports it wherever raygrove is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.conftest import Run

pytest_plugins = ["pytester"]

LISTS_MODULES = """
import atexit, pathlib, sys

def list_modules():
    pathlib.Path("modules").write_text("\\n".join(sys.modules))

def test_nothing_of_agents():
    atexit.register(list_modules)
"""


def imported(run: Run, folder: Path, *options: str) -> set[str]:
    """The modules that are there when pytest ends."""
    run(LISTS_MODULES, *options).assert_outcomes(passed=1)
    return set((folder / "modules").read_text().splitlines())


def test_a_project_without_agents_imports_five_modules_for_the_plugin(run: Run, pytester: pytest.Pytester) -> None:
    without = imported(run, pytester.path, "-p", "no:raygrove")
    assert imported(run, pytester.path) - without == {
        "raygrove",
        "raygrove.plugin",
        "raygrove.plugin.fixtures",
        "raygrove.plugin.hooks",
        "raygrove.shadowing",
    }
