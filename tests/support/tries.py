"""The number of examples that a property is tried with: few in `make test`, all of them in `make test-full`."""

from __future__ import annotations

import os

IS_FULL = os.environ.get("RAYGROVE_TEST_SET") == "full"
"""True in a run of the full set."""

QUICK = 10


def tries(number: int) -> int:
    """So many examples in the full set, at most 10 in a quick run."""
    return number if IS_FULL else min(number, QUICK)
