"""This process as Ray shows and ends it: its title, the name in front of what it prints, its connection after a fork."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

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
