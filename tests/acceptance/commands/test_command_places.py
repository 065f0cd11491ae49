"""Commands say which file is meant by a path that names none, and end without an error when their reader has enough."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.errors import RequestError
from tests.support.app_folders import HELLO, desk, write
from tests.support.console import invoke


@pytest.fixture(autouse=True)
def _places(folder: Path) -> None:
    write(folder, {"places.py": HELLO, "inputs.jsonl": '"hi"\n', "one.evalset.json": '{"eval_set_id": "one", "eval_cases": []}'})
    desk(folder / "apps" / "places_desk")


def error(*arguments: str) -> str:
    with pytest.raises(RequestError) as raised:
        invoke(*arguments)
    return str(raised.value)


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


@pytest.mark.parametrize("arguments", [["version"], ["version", "--json"]])
def test_a_command_whose_reader_is_gone_ends_with_0(arguments: list[str]) -> None:
    command = [str(Path(sys.executable).with_name("raygrove")), *arguments]
    reader, writer = os.pipe()
    # Before the command has begun.
    os.close(reader)
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
