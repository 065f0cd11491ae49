"""A local Ray that costs no more than one program needs.

`ray.init` starts the processes of a whole cluster: an autoscaler, which has nothing to scale here, and a dashboard's server,
which runs even where the dashboard is left out. The raylet waits for that server, and leaving waits a second for the autoscaler
to end. Each of its workers imports Ray, and twice: see `worker_forks`. Ray has no options against these. Where
another version of Ray has no such methods, everything is started as usual.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from subprocess import list2cmdline
from typing import Any, Literal

from runtime.cluster.ray import worker_forks
from runtime.cluster.ray.names import PrivateName, is_tested
from runtime.private_files import opener, temporary_folder

REGISTERED_S = 5.0
"""How long to wait for the raylet before that is left to Ray."""

LOOK_S = 0.01
"""Time between two looks for the raylet."""

RAYLET, FORKS = "raylet", "worker_forks"
"""Kinds of a node's processes."""

WORKERS = "--python_worker_command="
"""The argument of a raylet that has the command of its workers."""

CONNECTING = {"RAY_raylet_client_connect_timeout_milliseconds": "10", "RAY_raylet_client_num_connect_attempts": "1000"}
"""How often Ray's processes try to connect to a socket that is not there yet, and for how long in all. A raylet is often quicker
than its own object store, and by default tries again after a second."""

GIVING_WAY = {"RAY_worker_niceness": "5"}
"""How far workers give way to other processes. They do to the program and its web server, which say no in time when there is too
much to do; but by Ray's own 15 agents have a thirtieth of a core beside any program that computes, and turns take ten times as
long."""

FEW_OPEN = {"RAY_LOG_MONITOR_MAX_OPEN_FILES": "32"}
"""How many files Ray's log monitor opens before it closes those that nothing was written to, of ended workers for example: by
default 200. It opens two for each worker."""

_METHODS = {
    name: PrivateName("ray._private.node", f"Node.{name}", "a local Ray starts as Ray has it, with more processes")
    for name in ("start_monitor", "start_api_server", "start_raylet", "start_log_monitor")
}
_NODE = PrivateName("ray._private.node", "Node", _METHODS["start_raylet"].lost)
_START = PrivateName("ray._private.services", "start_ray_process", "each worker of a local Ray imports all that it needs itself")


def _start_no_autoscaler(node: Any, **options: object) -> None:
    """Take the place of `Node.start_monitor`."""


def _start_no_server(node: Any, **options: object) -> None:
    """Take the place of `Node.start_api_server`, and leave the node as that does when there is no dashboard."""
    node._webui_url = ""


def _light_raylet(start_raylet: Callable[..., None], imported: Sequence[str]) -> Callable[..., None]:
    """A replacement of `Node.start_raylet`: the same, with a program from which workers are forked.

    Args:
        imported: see `start_forks`.
    """

    def start(node: Any, *arguments: object, **options: object) -> None:
        with _METHODS["start_raylet"].or_without():
            variables = {name: value for name, value in {**CONNECTING, **GIVING_WAY}.items() if name not in os.environ}
            node._ray_params.env_vars = {**variables, **(node._ray_params.env_vars or {})}
        with workers_by_shell():
            start_raylet(node, *arguments, **options)
        with _START.or_without():
            start_forks(node, _START.find(), imported)
        wait_until_registered(node)

    return start


@contextmanager
def workers_by_shell() -> Iterator[None]:
    """Have the raylet that is started in the block run a shell for each worker, which asks for a fork."""
    services, original = None, None
    if hasattr(os, "pidfd_open") and os.access(worker_forks.SHELL, os.X_OK):
        with _START.or_without():
            services, original = import_module(_START.module), _START.find()
            setattr(services, _START.path, _asking_first(original))
    try:
        yield
    finally:
        if original is not None:
            setattr(services, _START.path, original)


def _asking_first(start_process: Callable[..., Any]) -> Callable[..., Any]:
    """Ray's function that starts a process, with a shell before the command by which a raylet starts workers."""
    python = f"{WORKERS}{list2cmdline([sys.executable])} "
    shell = f"{WORKERS}{list2cmdline([worker_forks.SHELL, worker_forks.SCRIPT])} "

    def start(command: Sequence[str], *arguments: Any, **options: Any) -> Any:
        asking = [f"{shell}{each.removeprefix(WORKERS)}" if each.startswith(python) else each for each in command]
        return start_process(asking, *arguments, **options)

    return start


def start_forks(node: Any, start_process: Callable[..., Any], imported: Sequence[str] = ()) -> None:
    """Start the program from which the raylet's workers are forked.

    Args:
        node: has just started its raylet.
        start_process: Ray's own function for that.
        imported: modules that workers need beside those that they all do.
    """
    if not hasattr(os, "pidfd_open"):
        return
    with suppress(AttributeError, KeyError, OSError):
        (raylet,) = node.all_processes[RAYLET]
        # The environment that the raylet gives its workers: among others, Ray gives only its own processes another allocator.
        command = ["env", "-u", "LD_PRELOAD", "SPT_NOENV=1", sys.executable, worker_forks.__file__]
        arguments = [
            worker_forks.folder_of_forks(node.raylet_socket_name),
            str(raylet.process.pid),
            node.get_logs_dir_path(),
            *imported,
        ]
        with open(os.path.join(node.get_logs_dir_path(), "forks.log"), "a", opener=opener) as log:
            started = start_process(
                command + arguments,
                FORKS,
                fate_share=node.kernel_fate_share,
                env_updates={**node._ray_params.env_vars, "RAY_RAYLET_PID": str(raylet.process.pid)},
                stdout_file=log,
                stderr_file=log,
            )
        node.all_processes[FORKS] = [started]


def wait_until_registered(node: Any) -> None:
    """Wait until the raylet is ready. Ray looks for it after 0.1 s and then each second, whenever it has become ready."""
    end_s = time.monotonic() + REGISTERED_S
    with suppress(AttributeError):
        while not node.get_gcs_client().get_all_node_info() and time.monotonic() < end_s:
            time.sleep(LOOK_S)


def _frugal_log_monitor(start_log_monitor: Callable[..., None], imported: Sequence[str]) -> Callable[..., None]:
    """A replacement of `Node.start_log_monitor`: the same, with fewer files that are open at once."""

    def start(node: Any, *arguments: object, **options: object) -> None:
        variables = {name: value for name, value in FEW_OPEN.items() if name not in os.environ}
        os.environ.update(variables)
        try:
            start_log_monitor(node, *arguments, **options)
        finally:
            for name in variables:
                del os.environ[name]

    return start


_REPLACEMENTS: dict[str, Callable[[Callable[..., None], Sequence[str]], Callable[..., None]]] = {
    "start_monitor": lambda *_: _start_no_autoscaler,
    "start_api_server": lambda *_: _start_no_server,
    "start_raylet": _light_raylet,
    "start_log_monitor": _frugal_log_monitor,
}


def starting_ray(kind: Literal["light", "plain"], imported: Sequence[str] = ()) -> AbstractContextManager[None]:
    """A block in which `ray.init` starts a local Ray.

    Args:
        kind: the setting `local_ray`: "light" is as in `light_ray`, if this version of Ray is tested; "plain" is Ray's way.
        imported: see `light_ray`.
    """
    return light_ray(imported) if kind == "light" and is_tested() else nullcontext()


@contextmanager
def light_ray(imported: Sequence[str] = ()) -> Iterator[None]:
    """Have `ray.init` start no autoscaler, no dashboard's server, and workers that share what they import.

    Args:
        imported: modules that workers share beside those that all need; one that is not there is left out.
    """
    originals: dict[str, Callable[..., None]] = {}
    for name, method in _METHODS.items():
        with method.or_without():
            originals[name] = method.find()
    if originals:
        node = _NODE.find()
        for name, original in originals.items():
            setattr(node, name, _REPLACEMENTS[name](original, imported))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(node, name, original)


RAY_FOLDER = "RAY_TMPDIR"
"""Environment variable: where a user has Ray put its folder."""

MAX_FOLDER_BYTES = 107 - len("/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store")
"""The longest name of Ray's folder: the path of a Unix socket has at most 107 bytes."""


def folder_of_ray() -> str | None:
    """The folder of a local Ray, in one that only this user may enter; None where Ray chooses one."""
    if os.environ.get(RAY_FOLDER):
        return None
    try:
        folder = str(temporary_folder() / "ray")
    except OSError:
        # Ray says it of its own folder as well, and better.
        return None
    return folder if len(os.fsencode(folder)) <= MAX_FOLDER_BYTES else None
