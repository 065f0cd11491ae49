"""Asserts outside of test modules tell what they compared, too."""

from pathlib import Path

import pytest

from tests.helpers import Deploy

pytest.register_assert_rewrite(
    "tests.acceptance.areas", "tests.acceptance.controlflow", "tests.acceptance.hostile", "tests.acceptance.played"
)


@pytest.fixture
def local(tmp_path: Path) -> Deploy:
    """Makes a Runtime on the local engine: for what happens inside of actors, wherever they live."""
    return Deploy("local", tmp_path)
