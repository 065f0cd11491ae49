"""What the tests of the adapter share."""

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.adk.notes import log
from tests.support.modules import IMPORTED
from tests.support.runtimes import Deploy

# google-adk has an environment of its own: make test-adk.
collect_ignore_glob = [] if find_spec("google.adk") else ["test_*.py"]

# Set before anything starts Ray, whose processes inherit it: programs note what they do in files of this folder, which all
# processes of a distributed run share, and those that kill their process must not kill this one.
IS_FIRST = "ADK_TEST_LOGS" not in os.environ
if IS_FIRST:
    os.environ["ADK_TEST_LOGS"] = tempfile.mkdtemp(prefix="raygrove-adk-")
os.environ["ADK_TEST_PID"] = str(os.getpid())

# Each test has agents in processes of their own, and all of them import ADK: most of the time of a test went into that.
os.environ[IMPORTED] = " ".join(
    f"google.adk.{each}"
    for each in ("agents", "apps", "flows.llm_flows.base_llm_flow", "models.google_llm", "plugins", "runners")
)


def pytest_sessionfinish() -> None:
    """Leave nothing in the temporary folder."""
    if IS_FIRST:
        shutil.rmtree(os.environ["ADK_TEST_LOGS"], ignore_errors=True)


@pytest.fixture
def local(tmp_path: Path) -> Deploy:
    """Makes a Runtime on the local engine."""
    return Deploy("local", tmp_path)


@pytest.fixture(params=["local", "ray"])
def deploy(request: pytest.FixtureRequest, tmp_path: Path) -> Deploy:
    """Makes Runtimes on each of both engines, with nothing noted yet."""
    log().unlink(missing_ok=True)
    if request.param == "ray":
        request.getfixturevalue("local_ray")
    return Deploy(request.param, tmp_path)
