"""This process as Ray shows and ends it: its title, what is printed of it, its connection after a fork."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Any

from runtime.cluster.ray.names import PrivateName

SIGNAL_HANDLER = "RAY_DISABLE_FAILURE_SIGNAL_HANDLER"
"""Environment variable: whether Ray prints no stack of this process when a signal ends it."""

_TITLES = PrivateName("ray", "_raylet", "`ps` and `top` show the processes of agents by Ray's own titles")
_PREFIX = PrivateName(
    "ray._private.ray_constants", "LOG_PREFIX_ACTOR_NAME", "Ray names what an agent prints outside of a turn by its process only"
)
_CONSTANTS = PrivateName(
    "ray._private",
    "ray_constants",
    f"a program that a signal ends prints a stack of Ray's, unless {SIGNAL_HANDLER}=1 is set before it starts",
)
_DETACH = PrivateName(
    "ray._private.worker",
    "global_worker.set_mode",
    "a fork of a program that uses Ray may speak to its Ray when handles are dropped: start processes with 'spawn'",
)


def put_up_title(title: str) -> None:
    """Have `ps` and `top` show this process by a title, unless they do."""
    shown, put_up = title_functions()
    if shown() != title:
        put_up(title)


@cache
def title_functions() -> tuple[Callable[[], str | None], Callable[[str], None]]:
    """Ray's functions that read and change the title of this process, looked up once: each message uses them."""
    with _TITLES.or_without():
        raylet = _TITLES.find()
        return raylet.getproctitle, raylet.setproctitle
    return lambda: None, lambda title: None


def output_name(name: str) -> str:
    """A line that has Ray show a name in front of what this process prints from then on; "" without such lines."""
    with _PREFIX.or_without():
        return f"{_PREFIX.find()}{name}"
    return ""


def print_no_stack() -> None:
    """Have Ray print no C++ stack when SIGTERM ends this program, such as a worker of a web server, unless a user asks."""
    if SIGNAL_HANDLER not in os.environ:
        with _CONSTANTS.or_without():
            # Ray has read the variable when it was imported.
            _CONSTANTS.find().RAY_DISABLE_FAILURE_SIGNAL_HANDLER = True


def detach() -> None:
    """In a fork: have handles and references to objects let go of without a message to Ray."""
    with _DETACH.or_without():
        _DETACH.find()(None)


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
