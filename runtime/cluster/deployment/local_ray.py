"""A local Ray that costs no more than one program needs.

`ray.init` starts the processes of a whole cluster: an autoscaler, which has nothing to scale here, and a dashboard's server,
which runs even where the dashboard is left out. The raylet waits for that server, and leaving waits a second for the autoscaler
to end. Its workers import Ray twice, see `worker_start`. Ray has no options against these. Where another version of Ray has no
such methods, everything is started as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ray._private.node import Node

from runtime.cluster.deployment import worker_start


def _start_no_autoscaler(node: Any, **options: object) -> None:
    """Take the place of `Node.start_monitor`."""


def _start_no_server(node: Any, **options: object) -> None:
    """Take the place of `Node.start_api_server`, and leave the node as that does when there is no dashboard."""
    node._webui_url = ""


def _light_workers(start_raylet: Callable[..., None]) -> Callable[..., None]:
    """What takes the place of `Node.start_raylet`: that, with another program that becomes the workers."""

    def start(node: Any, *arguments: object, **options: object) -> None:
        if hasattr(node._ray_params, "setup_worker_path"):
            node._ray_params.setup_worker_path = worker_start.__file__
        start_raylet(node, *arguments, **options)

    return start


_REPLACEMENTS: dict[str, Callable[[Callable[..., None]], Callable[..., None]]] = {
    "start_monitor": lambda _: _start_no_autoscaler,
    "start_api_server": lambda _: _start_no_server,
    "start_raylet": _light_workers,
}


@contextmanager
def light_ray() -> Iterator[None]:
    """Have `ray.init` start no autoscaler, no dashboard's server, and workers that import Ray once."""
    originals = {name: getattr(Node, name) for name in _REPLACEMENTS if hasattr(Node, name)}
    for name, original in originals.items():
        setattr(Node, name, _REPLACEMENTS[name](original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(Node, name, original)
