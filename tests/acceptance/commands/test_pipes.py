"""A command whose reader has enough, such as `head`, ends without an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


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
