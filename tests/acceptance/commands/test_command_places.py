"""Commands that take the code of an app say which file is meant by a path that names none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.errors import RequestError
from runtime.frontends.console import cli
from tests.support.app_folders import HELLO, desk, fresh_imports, write


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path, {"places.py": HELLO, "inputs.jsonl": '"hi"\n', "one.evalset.json": '{"eval_set_id": "one", "eval_cases": []}'}
    )
    desk(tmp_path / "apps" / "places_desk")
    with fresh_imports():
        yield


def error(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, [*arguments])
    assert isinstance(result.exception, RequestError), result
    return str(result.exception)


@pytest.mark.parametrize(
    "command",
    [
        ("run", "places", "hi"),
        ("run", "places", "hi", "--store", "sqlite://"),
        ("chat", "places"),
        ("batch", "places", "inputs.jsonl"),
        ("tree", "places"),
        ("serve", "places"),
        ("start", "places"),
        ("eval", "places", "one.evalset.json"),
    ],
    ids=" ".join,
)
def test_a_file_is_meant_by_its_name_without_its_ending(command: tuple[str, ...]) -> None:
    said = error(*command)
    assert said.endswith(". Did you mean 'places.py'?"), said
    assert "Ray" not in said


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("./places", "./places.py"),
        ("./placse.py", "places.py"),
        ("apps/place_desk", "apps/places_desk"),
        ("apps/places_desk/agent", "apps/places_desk/agent.py"),
    ],
)
def test_a_path_with_a_slip_is_answered_with_the_nearest(given: str, meant: str) -> None:
    assert error("run", given, "hi") == f"there is no file or folder {given!r}. Did you mean {meant!r}?"
