"""Which Ray a Runtime uses, and what it says when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
from actors import LlmAgent
from actors.errors import ClusterError
from actors.testing import PatternModel
from runtime import Runtime

root = LlmAgent(name="root", model=PatternModel([]))
try:
    with Runtime(root, app_name="nowhere", address="127.0.0.1:1"):
        print("started")
except ClusterError as error:
    print("refused:", error)
"""


def test_an_address_where_no_ray_is_gives_a_cluster_error_that_names_it(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.startswith("refused: no Ray at '127.0.0.1:1' can be used")
