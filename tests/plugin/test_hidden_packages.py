"""Projects that have modules `actors` or `runtime` of their own: in their folder, these come before the packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.conftest import Run

pytest_plugins = ["pytester"]

UNRELATED = """
import {name}

def test_its_own_module():
    assert {name}.X == 1
"""

FILES = ["runtime.py", "runtime/__init__.py", "actors.py", "actors/__init__.py"]


def write(folder: Path, file: str, text: str) -> Path:
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.sampled(4)
@pytest.mark.parametrize("file", FILES)
def test_tests_of_an_unrelated_project_run_and_one_line_says_which_file_hides_which_package(
    run: Run, pytester: pytest.Pytester, file: str
) -> None:
    name = file.removesuffix(".py").removesuffix("/__init__")
    write(pytester.path, file, "X = 1\n")
    done = run(UNRELATED.format(name=name))
    done.assert_outcomes(passed=1)
    said = [line for line in done.outlines if line.startswith("raygrove: ")]
    assert len(said) == 1
    assert f"{pytester.path / name}" in said[0]
    assert f"hides the package `{name}` of raygrove" in said[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["runtime", "actors"])
def test_a_module_that_only_the_folder_of_the_tests_has_is_that_of_the_tests(
    run: Run, pytester: pytest.Pytester, name: str
) -> None:
    write(pytester.path, f"checks/{name}.py", "X = 1\n")
    write(pytester.path, "checks/test_own.py", UNRELATED.format(name=name))
    run("", "checks").assert_outcomes(passed=1)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("fixture", ["runtime", "script", "pattern_model"])
@pytest.mark.parametrize("name", ["runtime", "actors"])
def test_a_fixture_says_which_file_is_in_the_way(run: Run, pytester: pytest.Pytester, name: str, fixture: str) -> None:
    file = write(pytester.path, f"{name}.py", "")
    done = run(f"def test_agent({fixture}): pass")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([f"{file} hides the package `{name}` of raygrove: *Rename {name}.py, or move it into a package"])


PROGRAMS = {
    "runtime": "from actors import LlmAgent\nfrom runtime import Runtime\n",
    "actors": "from runtime import Runtime\nfrom actors import LlmAgent\n",
}


@pytest.mark.parametrize("file", FILES)
def test_a_program_hears_which_of_its_files_hides_which_package(tmp_path: Path, file: str) -> None:
    name = file.removesuffix(".py").removesuffix("/__init__")
    write(tmp_path, file, "")
    text = python(tmp_path, write(tmp_path, "main.py", PROGRAMS[name]))
    hiding = tmp_path / file.removesuffix("/__init__.py")
    assert text.splitlines()[-1].startswith(f"ImportError: {hiding} hides the package `{name}` of raygrove: ")
    assert text.endswith(f"Rename {hiding.name}, or move it into a package\n")


def test_a_program_that_takes_its_names_from_raygrove_hears_it_whatever_it_takes_first(tmp_path: Path) -> None:
    file = write(tmp_path, "runtime.py", "")
    for taken in ("Runtime", "LlmAgent"):
        text = python(tmp_path, write(tmp_path, "main.py", f"from raygrove import {taken}\n"))
        assert f"ImportError: {file} hides the package `runtime`" in text


def test_the_command_says_it_in_one_line(tmp_path: Path) -> None:
    file = write(tmp_path, "runtime.py", "")
    text = python(tmp_path, "-m", "raygrove", "version")
    assert text.startswith(f"{file} hides the package `runtime`")
    assert len(text.splitlines()) == 1


def test_a_folder_without_code_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    assert python(tmp_path, write(tmp_path, "main.py", PROGRAMS["runtime"])) == ""


def python(folder: Path, *arguments: object) -> str:
    """What a program writes to stderr."""
    done = subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False)
    return done.stderr
