"""The workflows of GitHub run commands that are there, on every Python and Ray that the package names."""

from __future__ import annotations

import re
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.sources import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs() -> dict[str, Any]:
    return {f"{path.stem}: {name}": job for path in WORKFLOWS for name, job in read(path)["jobs"].items()}


def filled(text: str, matrix: dict[str, Any]) -> list[str]:
    """The text for each value that the matrix has for what is in it."""
    named = re.findall(r"\$\{\{ matrix\.(\w+) \}\}", text)
    values = [[*matrix.get(name, []), *(each[name] for each in matrix.get("include", []) if name in each)] for name in named]
    found = []
    for chosen in product(*values):
        given = iter(chosen)
        found.append(re.sub(r"\$\{\{.*?\}\}", lambda _: next(given), text))  # noqa: B023
    return found


def commands() -> list[str]:
    return [
        command
        for job in jobs().values()
        for step in job["steps"]
        if "run" in step
        for command in filled(step["run"], job.get("strategy", {}).get("matrix", {}))
    ]


def test_every_make_target_and_environment_that_a_workflow_names_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    made = [command.split()[1:] for command in commands() if command.startswith("make ")]
    assert len(made) > 10
    assert {word for words in made for word in words if "=" not in word} - targets == set()
    assert {word.removeprefix("RAYS=") for words in made for word in words if "=" in word} == {
        ".venv-lowest-ray/bin",
        ".venv/bin",
    }
    assert all(f":= {folder}" in makefile for folder in (".venv-lowest-ray/bin", ".venv/bin"))


def test_every_python_that_the_package_names_is_tested_and_has_its_wheel_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {found[1] for each in project["classifiers"] if (found := re.fullmatch(r".*:: (3\.\d+)", each))}
    for job in ("test: python", "test: wheel"):
        assert set(jobs()[job]["strategy"]["matrix"]["python"]) == named


@pytest.mark.parametrize("name", jobs())
def test_a_job_ends_by_itself(name: str) -> None:
    assert jobs()[name]["timeout-minutes"] <= 90


def test_only_the_upload_to_pypi_may_write_and_it_runs_no_code_of_ours() -> None:
    assert [read(path)["permissions"] for path in WORKFLOWS] == [{"contents": "read"}] * len(WORKFLOWS)
    more = {name: job for name, job in jobs().items() if "permissions" in job}
    assert {name: job["permissions"] for name, job in more.items()} == {"publish: publish": {"id-token": "write"}}
    assert [step for step in more["publish: publish"]["steps"] if "run" in step] == []


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_each_thing_once(path: Path) -> None:
    form = read(path)
    asked = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert form["name"]
    assert form["description"]
    assert len(asked) == len(set(asked)) > 0
