"""What tests of commands share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.app_folders import fresh_imports


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which commands run, and whose apps they load."""
    monkeypatch.chdir(tmp_path)
    with fresh_imports():
        yield tmp_path
