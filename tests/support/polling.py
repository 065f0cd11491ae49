"""Waiting for what no event tells of."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 80.0
"""Starting a few processes may take half a minute where other tests start some, too."""


def until(happened: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Return once it has happened; fail when that takes too long."""
    end_s = time.monotonic() + patience_s
    while not happened():
        assert time.monotonic() < end_s
        time.sleep(0.01)
