"""Which Ray a Runtime uses, and what it says when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.servers.postgres_server import short_folder

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

ALONE = """
from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime, Settings

root = LlmAgent(name="root", model=PatternModel([], default="hi"))
with Runtime(root, app_name="alone", settings=Settings(spare_hosts=0)) as rt:
    print(rt.run(user_id="ada", session_id="s1", message="hello").result().text)
"""


@pytest.mark.full
def test_without_an_address_a_program_has_a_ray_of_its_own_whatever_was_started_here_last() -> None:
    # Ray has sockets in its folder, whose paths may not be long.
    with short_folder() as folder:
        (folder / "ray").mkdir()
        (folder / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        environment["RAY_TMPDIR"] = str(folder)
        done = subprocess.run(
            [sys.executable, "-c", ALONE], cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=True
        )
    assert done.stdout.strip() == "hi"


ASKED = """
import subprocess
import sys
from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime, Settings

root = LlmAgent(name="root", model=PatternModel([], default="hi"))
with Runtime(root, app_name="homeless", settings=Settings(spare_hosts=0)) as rt:
    command = [sys.executable, "-m", "raygrove", "ps", "--address", rt.address]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
"""


@pytest.mark.full
def test_a_user_without_a_home_has_a_ray_whose_token_is_private_and_joins_it() -> None:
    # The name is as short as one has to be for the sockets of a user.
    with TemporaryDirectory(prefix="r", dir="/tmp") as name:
        removed = {"RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}
        environment = {key: value for key, value in os.environ.items() if key not in removed}
        environment |= {"HOME": "/dev/null/home", "TMPDIR": name}
        done = subprocess.run(
            [sys.executable, "-c", ASKED], cwd=name, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        [token] = Path(name).glob("raygrove-*/auth_token")
        assert token.stat().st_mode & 0o777 == 0o600
    assert "homeless" in done.stdout, done.stderr


def test_an_address_where_no_ray_is_gives_a_cluster_error_that_names_it(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.startswith("refused: no Ray at '127.0.0.1:1' can be used")
