"""Lines of Ray on a program's terminal with which a user can do nothing."""

from __future__ import annotations

import re

from ray._private import ray_logging

NOISE = r"\d+ [A-Z]+ worker processes have been started on node"
"""The raylet's warning of many processes for the number of CPUs: here most of them wait for models."""


def hide_noise() -> None:
    """Have this process not show such lines. What a user has set in RAY_DEDUP_LOGS_SKIP_REGEX is left as it is."""
    for streams in ("stdout_deduplicator", "stderr_deduplicator"):
        lines = getattr(ray_logging, streams, None)
        if lines is not None and getattr(lines, "skip_re", NOISE) is None:
            lines.skip_re = re.compile(NOISE)
