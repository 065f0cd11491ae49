"""Every command in the documentation is one that there is; those of `raygrove` are run over a store."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.docs.links import broken
from tests.docs.pages import ROOT, Page, blocks, pages

FOREIGN = {"docker", "git", "kubectl", "pip", "ray", "cd", "curl", "sleep"}
"""Programs that are not this project's: of their arguments the paths in this repository are looked at."""


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command of the `sh` blocks: where it stands, and its words."""
    for block in blocks("sh"):
        for number, line in enumerate(block.code.replace("\\\n", "  ").splitlines()):
            for command in line.split("&&"):
                words = shlex.split(command, comments=True)
                if words:
                    yield f"{block.page.name}:{block.line + number} {' '.join(words)}", words


ALL = dict(commands())
OURS = [where for where, words in ALL.items() if words[0] == "raygrove"]


def test_commands_of_other_programs_are_there() -> None:
    assert [where for where, words in ALL.items() if where not in OURS and not is_there(*words)] == []


def is_there(program: str, *arguments: str) -> bool:
    if program == "make":
        return {word for word in arguments if "=" not in word} <= targets()
    if program.startswith(".venv/bin/"):
        has_program = Path(sys.executable).with_name(Path(program).name).exists()
    else:
        has_program = program in FOREIGN | {"python"}
    quoted = " ".join(f"`{word}`" for word in arguments if "/" in word)
    return has_program and broken([Page(ROOT / "README.md", quoted)]) == []


def test_make_targets_that_are_quoted_are_there() -> None:
    quoted = {each.text.split()[1] for page in pages() for each in page.quoted if each.text.startswith("make ")}
    assert quoted - targets() == set()


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the app `support` has run, with a session `s1` of Ada's."""
    folder = tmp_path_factory.mktemp("app")
    root = LlmAgent(name="concierge", model=PatternModel([("", "It is on its way.")]))
    store = f"sqlite:///{folder}/.raygrove/support.db"
    with Runtime(root, app_name="support", engine="local", session_store=store, artifact_store=str(folder)) as rt:
        rt.run(user_id="ada", session_id="s1", message="Where is it?").result()
    return folder


@pytest.mark.sampled(3)
@pytest.mark.parametrize("where", OURS)
def test_a_command_of_raygrove_runs(where: str, folder: Path) -> None:
    command = [str(Path(sys.executable).with_name("raygrove")), *ALL[where][1:]]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAYGROVE_")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
