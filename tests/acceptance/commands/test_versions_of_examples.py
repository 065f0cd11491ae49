"""A tree of the same file is the same version: in each process, whatever its hashes of texts are, and after it was used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.examples import EXAMPLES
from tests.support.sources import ROOT

NOT_HERE = {"killed", "ray_data"}
"""Examples that end processes of a Ray, and that need another environment."""

AT_ANOTHER_ADDRESS = {"api_and_code"}
"""Its tools speak to a server that each process starts on a port of its own."""


def versions(folder: Path, hash_seed: str) -> list[list[str]]:
    """Of each tree of each example: its name, the version at its start, and the version when it has been used."""
    names = sorted({each.stem for each in EXAMPLES.glob("*.py")} - NOT_HERE)
    command = [sys.executable, "-m", "tests.support.programs.example_versions", *names]
    folder.mkdir()
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def test_the_version_of_an_example_is_the_same_in_each_process_and_after_use(tmp_path: Path) -> None:
    first, second = (versions(tmp_path / seed, seed) for seed in ("1", "2"))
    assert len(first) > 20
    assert [(name, after) for name, _, after in first] == [(name, before) for name, before, _ in first]
    assert [each for each in first if each[0] not in AT_ANOTHER_ADDRESS] == [
        each for each in second if each[0] not in AT_ANOTHER_ADDRESS
    ]
