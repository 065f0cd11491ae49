"""What acceptance tests share. Assertions in helpers report what they compared, as those in tests do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents.conversation_tools import Gate
from tests.support.runtimes import Deploy

pytest.register_assert_rewrite(
    "tests.support.vectors.vector_areas",
    "tests.support.vectors.vector_flows",
    "tests.support.agents.hostile_code",
    "tests.support.vectors.vector_runner",
)


@pytest.fixture
def local(tmp_path: Path) -> Deploy:
    """Makes a Runtime on the local engine: for what happens inside of actors, wherever they live."""
    return Deploy("local", tmp_path)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Where the tool `wait` waits, until the test has ended at the latest."""
    made = Gate(tmp_path)
    yield made
    made.release()
