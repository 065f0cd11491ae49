"""Lines of Ray on a program's terminal with which a user can do nothing."""

from __future__ import annotations

import re
from functools import wraps
from typing import Any

from ray._private import ray_logging, worker

NOISE = r"\d+ [A-Z]+ worker processes have been started on node"
"""The raylet's warning of many processes for the number of CPUs: here most of them wait for models."""


def hide_noise() -> None:
    """Have this process not show such lines, and other messages of Ray's own on the standard error.

    Ray prints them among the lines of the program, which may be the JSON of a command. What a user has set in
    RAY_DEDUP_LOGS_SKIP_REGEX is left as it is.
    """
    for streams in ("stdout_deduplicator", "stderr_deduplicator"):
        lines = getattr(ray_logging, streams, None)
        if lines is not None and getattr(lines, "skip_re", NOISE) is None:
            lines.skip_re = re.compile(NOISE)
    printed = getattr(worker, "print_to_stdstream", None)
    if printed is not None and not hasattr(printed, "__wrapped__"):

        @wraps(printed)
        def with_rays_own_as_errors(data: dict[str, Any], *args: Any, **options: Any) -> None:
            printed({**data, "is_err": True} if data.get("pid") == "raylet" else data, *args, **options)

        worker.print_to_stdstream = with_rays_own_as_errors
