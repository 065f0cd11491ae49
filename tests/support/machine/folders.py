"""Folders of tests, in memory where there is room.

On a disk a store waits at each commit, which says nothing about the code, and a disk that stands still for a minute ends a test.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

MEMORY = Path("/dev/shm")
"""Where folders lie in memory, on Linux."""

ROOM_BYTES = 4 * 2**30
"""Free bytes that it has to have."""


def place_of_folders() -> Path:
    """The folder in which tests make theirs."""
    return MEMORY if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM_BYTES else Path("/tmp")


def quick_folder() -> TemporaryDirectory[str]:
    """A folder that a test makes by itself, for each of many examples. A lost actor may close a file while it is deleted."""
    return TemporaryDirectory(dir=place_of_folders(), ignore_cleanup_errors=True)
