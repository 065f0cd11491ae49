"""What an app and the commands write is for their owner only, in a program that does not care about modes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors import LlmAgent
from actors.messages.content import Part
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.frontends.console import cli
from runtime.frontends.console.batches import ResultsFile
from runtime.settings import Settings


@pytest.fixture(autouse=True)
def _with_open_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    yield
    os.umask(before)


def raygrove(*arguments: str) -> None:
    result = CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output


def modes(folder: Path) -> dict[str, int]:
    """The modes of all that is in a folder."""
    return {str(each.relative_to(folder)): stat.S_IMODE(each.lstat().st_mode) for each in sorted(folder.rglob("*"))}


def test_every_file_is_private(tmp_path: Path) -> None:
    root = LlmAgent(name="root", model=PatternModel([], default="hello"))
    settings = Settings(log_dir=tmp_path / "logs" / "app", log_level="DEBUG")
    with Runtime(root, app_name="desk", engine="local", settings=settings) as rt:
        rt.run(user_id="ada", session_id="s1", message="hi").result()
        rt.artifacts.save("ada", "s1", "letter.txt", Part(text="secret"))
        rt.memory.add_session("ada", "s1")
        while_it_runs = modes(tmp_path)
    raygrove("store", "backup", "copies/backup.db", "--app", "desk")
    raygrove("store", "export", "exports/all.jsonl", "--app", "desk")
    with ResultsFile("results.jsonl").opened() as file:
        file.write('{"id": "1", "outcome": "failed"}\n')
    ResultsFile("results.jsonl")
    found = modes(tmp_path)
    for name, mode in {**while_it_runs, **found}.items():
        assert mode == (0o700 if (tmp_path / name).is_dir() else 0o600), name
    assert {Path(name).suffix for name in while_it_runs} >= {".db", ".db-wal", ".db-shm"}
    assert {name.partition("/")[0] for name in found} == {".raygrove", "copies", "exports", "results.jsonl"}
    assert any("artifacts/" in name for name in found)


def test_folders_and_files_of_the_user_stay_as_they_are(tmp_path: Path) -> None:
    shared, results = tmp_path / ".raygrove", tmp_path / "results.jsonl"
    shared.mkdir(0o775)
    results.write_text('{"id": "1", "outcome": "failed"}\n{"id": "2", "outcome": "finished"}\n')
    results.chmod(0o644)
    root = LlmAgent(name="root", model=PatternModel([], default="hello"))
    with Runtime(root, app_name="desk", engine="local") as rt:
        rt.run(user_id="ada", session_id="s1", message="hi").result()
    ResultsFile(str(results))
    found = modes(tmp_path)
    assert (found[".raygrove"], found[".raygrove/desk.db"], found["results.jsonl"]) == (0o775, 0o600, 0o644)
