"""A local Ray with no more processes than one program needs.

`ray.init` starts the processes of a whole cluster: an autoscaler, which has nothing to scale here, and a dashboard's server,
which runs even where the dashboard is left out. The raylet waits for that server, and leaving waits a second for the autoscaler
to end. Ray has no options against them. Where another version of Ray has no such methods, everything is started as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ray._private.node import Node


def _start_no_autoscaler(node: Any, **options: object) -> None:
    """Take the place of `Node.start_monitor`."""


def _start_no_server(node: Any, **options: object) -> None:
    """Take the place of `Node.start_api_server`, and leave the node as that does when there is no dashboard."""
    node._webui_url = ""


_LEFT_OUT: dict[str, Callable[..., None]] = {
    "start_monitor": _start_no_autoscaler,
    "start_api_server": _start_no_server,
}


@contextmanager
def without_idle_processes() -> Iterator[None]:
    """Have `ray.init` start no autoscaler, and no dashboard's server."""
    originals = {name: getattr(Node, name) for name in _LEFT_OUT if hasattr(Node, name)}
    for name in originals:
        setattr(Node, name, _LEFT_OUT[name])
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(Node, name, original)
