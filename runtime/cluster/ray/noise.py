"""Lines of Ray on a program's terminal with which a user can do nothing."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from runtime.cluster.ray.names import PrivateName

_STREAMS = [
    PrivateName("ray._private.ray_logging", name, "the raylet's warning of many worker processes is shown")
    for name in ("stdout_deduplicator", "stderr_deduplicator")
]
_PRINT = PrivateName("ray._private.worker", "print_to_stdstream", "messages of Ray's own stand among the output of a program")

NOISE = r"\d+ [A-Z]+ worker processes have been started on node"
"""The raylet's warning of many processes for the number of CPUs: here most of them wait for models."""

ADVICE = "Tip: In future versions of Ray"
"""How Ray's advice about a variable of its own begins, which versions before 2.60 give at each start."""


def hide_noise() -> None:
    """Have this process not show such lines, and other messages of Ray's own on the standard error.

    Ray prints them among the lines of the program, which may be the JSON of a command. What a user has set in
    RAY_DEDUP_LOGS_SKIP_REGEX is left as it is.
    """
    warnings.filterwarnings("ignore", ADVICE, FutureWarning)
    for stream in _STREAMS:
        with stream.or_without():
            lines = stream.find()
            if lines.skip_re is None:
                lines.skip_re = re.compile(NOISE)
    with _PRINT.or_without():
        _have_rays_own_as_errors(_PRINT.find())


def _have_rays_own_as_errors(printed: Callable[..., None]) -> None:
    if hasattr(printed, "__wrapped__"):
        return

    @wraps(printed)
    def with_rays_own_as_errors(data: dict[str, Any], *args: Any, **options: Any) -> None:
        printed({**data, "is_err": True} if data.get("pid") == "raylet" else data, *args, **options)

    worker: Any = import_module(_PRINT.module)
    worker.print_to_stdstream = with_rays_own_as_errors
