"""What the tests of the adapter share."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.support.runtimes import Deploy

# Set before anything starts Ray, whose processes inherit it: programs note what they do in the file, and those that kill their
# process must not kill this one.
os.environ["ADK_TEST_LOG"] = str(Path(tempfile.mkdtemp(prefix="raygrove-adk-")) / "log")
os.environ["ADK_TEST_PID"] = str(os.getpid())


@pytest.fixture
def local(tmp_path: Path) -> Deploy:
    """Makes a Runtime on the local engine."""
    return Deploy("local", tmp_path)
