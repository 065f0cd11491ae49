"""Count the lines of our own code that a thread runs: a cost that is the same on each machine."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def counted_lines(counts: Counter[str]) -> Iterator[None]:
    """Inside the block the lines are counted that this thread runs in `actors`."""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if "/actors/" not in frame.f_code.co_filename:
            return None
        counts["lines"] += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
