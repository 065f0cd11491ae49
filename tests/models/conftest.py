"""Fixtures of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.runtimes import Deploy


@pytest.fixture
def local(tmp_path: Path) -> Deploy:
    """Makes a Runtime on the local engine."""
    return Deploy("local", tmp_path)
