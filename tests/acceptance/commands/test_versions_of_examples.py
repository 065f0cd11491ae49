"""A tree of the same file is the same version: in each process, whatever its hashes of texts are, and after it was used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.examples import EXAMPLES
from tests.support.sources import ROOT

NOT_HERE = {"killed", "ray_data"}
"""Examples that end processes of a Ray, and that need another environment."""

AT_ANOTHER_ADDRESS = {"api_and_code"}
"""Its tools speak to a server that each process starts on a port of its own."""

NAMES = sorted({each.stem for each in EXAMPLES.glob("*.py")} - NOT_HERE)
PARTS = 6


def versions(names: list[str], folder: Path, hash_seed: str) -> list[list[str]]:
    """Of each tree of each example: its name, the version at its start, and the version when it has been used."""
    command = [sys.executable, "-m", "tests.support.programs.example_versions", *names]
    folder.mkdir()
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.full
@pytest.mark.sampled(full=6)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_version_of_an_example_is_the_same_in_each_process_and_after_use(part: int, tmp_path: Path) -> None:
    names = NAMES[part::PARTS]
    first, second = (versions(names, tmp_path / seed, seed) for seed in ("1", "2"))
    assert {name for name, *_ in first} == set(names)
    assert [(name, after) for name, _, after in first] == [(name, before) for name, before, _ in first]
    assert [each for each in first if each[0] not in AT_ANOTHER_ADDRESS] == [
        each for each in second if each[0] not in AT_ANOTHER_ADDRESS
    ]
