"""How busy the machine is with other work, for tests that say how long something may take."""

from __future__ import annotations

import time

SAMPLE_S = 0.05


def slowdown() -> float:
    """How many times longer than alone on a core a piece of work takes now; from 1."""
    began_s, used_s = time.perf_counter(), time.thread_time()
    while time.thread_time() - used_s < SAMPLE_S:
        pass
    return max(1.0, (time.perf_counter() - began_s) / SAMPLE_S)


def is_within(took_s: float, bound_s: float) -> bool:
    """True when something took no longer than its bound on a quiet machine; on a busy one that much longer is allowed."""
    return took_s < bound_s or took_s < bound_s * slowdown()
