"""Environment variables that a deployment gives to its processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def set_variables(values: Mapping[str, str]) -> None:
    """Set environment variables in this process. Folders in PYTHONPATH are imported from at once, before all others."""
    os.environ.update(values)
    folders = values.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [folder for folder in dict.fromkeys(folders) if folder and folder not in sys.path]
