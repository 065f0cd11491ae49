"""A program: it becomes a worker of a local Ray, as Ray's own `setup_worker.py` does, for less than half of the CPU time.

Ray starts each worker by a program that sets the variables of the worker's runtime environment and then becomes the worker.
Ray's own imports all of Ray, as the worker itself does once more, in another interpreter. This one runs the worker's file itself.
A runtime environment that asks for more than variables is left to Ray's own program.

Where `worker_forks` runs, a fork of that becomes the worker, for a fifth of the CPU time.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import runpy
import socket
import stat
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

CONTEXT = "--serialized-runtime-env-context="
LANGUAGE = "--language="

OBJECTS = 10_000
"""New objects after which Python looks for garbage among them; by default 700, a tenth of the time that imports take."""

FORK_S = 15.0
"""How long to wait for a fork, in seconds."""

JOB = "RAY_JOB_ID"
"""The variable in which the environments of a raylet's workers differ."""

_CREDENTIALS = struct.Struct("3i")
_UNKNOWN_VARIABLE = re.compile(r"\$\{[A-Z0-9_]+\}")


class WorkerCommand(NamedTuple):
    """What this process is to become.

    Attributes:
        arguments: the interpreter, the worker's file, and its arguments.
        variables: of the worker's runtime environment. They may refer to others, as in `${HOME}/lib`.
    """

    arguments: list[str]
    variables: dict[str, str]


def worker_command(given: Sequence[str]) -> WorkerCommand | None:
    """The command of a process that becomes a worker.

    Args:
        given: the arguments that a raylet starts `setup_worker.py` with.

    Returns:
        The command; None where only Ray's own program knows it.
    """
    passed = [each for each in given if not each.startswith((CONTEXT, LANGUAGE))]
    languages = [each.removeprefix(LANGUAGE) for each in given if each.startswith(LANGUAGE)]
    contexts = [each.removeprefix(CONTEXT) for each in given if each.startswith(CONTEXT)]
    context: dict[str, Any] = json.loads(contexts[-1]) if contexts and contexts[-1] else {}
    variables: dict[str, str] = context.pop("env_vars", None) or {}
    python: str = context.pop("py_executable", None) or sys.executable
    if languages != ["PYTHON"] or any(context.values()) or not os.access(python, os.X_OK):
        return None
    return WorkerCommand([python, *passed], variables)


def folder_of_forks(raylet: str) -> str:
    """The folder of the socket on which `worker_forks` takes requests for the workers of a raylet. Only its owner may enter it.

    Args:
        raylet: the raylet's own socket. Ray lets every user of the machine change the folder of that. The names here are short,
            since the path of a socket has at most 107 bytes.
    """
    return f"{raylet}.f"


def address_of_forks(raylet: str) -> str:
    """The socket on which `worker_forks` takes requests for the workers of a raylet."""
    return os.path.join(folder_of_forks(raylet), "s")


def is_private(folder: str) -> bool:
    """Whether a folder, which is no link, belongs to this user, and no other one may enter it."""
    with suppress(OSError):
        found = os.lstat(folder)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
    return False


def user_of(connection: socket.socket) -> int:
    """The user of the program at the other end of a Unix socket: the one that connected to it, or that listens on it."""
    _, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(user)


def digest_of(environment: Mapping[str, str]) -> str:
    """A hash of an environment without its job: both ends have to have the same one, so none is sent."""
    variables = sorted((name, value) for name, value in environment.items() if name != JOB)
    return hashlib.sha256(json.dumps(variables).encode()).hexdigest()


def fork(file: str, arguments: Sequence[str]) -> bool:
    """Have a worker forked that takes the place of this process.

    Args:
        file: the worker's file.
        arguments: its arguments.

    Returns:
        False when there is none, or what listens belongs to another user.
    """
    raylets = [each.partition("=")[2] for each in arguments if each.startswith("--raylet-name=")]
    if not raylets or not is_private(folder_of_forks(raylets[-1])):
        return False
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as forks, open("/proc/self/oom_score_adj") as score:
        worker = {
            "file": file,
            "arguments": list(arguments),
            "environment": digest_of(os.environ),
            "job": os.environ.get(JOB),
            "folder": os.getcwd(),
            "oom_score": score.read(),
        }
        request = json.dumps(worker).encode()
        forks.settimeout(FORK_S)
        forks.connect(address_of_forks(raylets[-1]))
        # The folder may have been replaced meanwhile.
        if user_of(forks) != os.geteuid():
            return False
        socket.send_fds(forks, [len(request).to_bytes(4, "big")], [0, 1, 2])
        forks.sendall(request)
        if forks.recv(1) == b"f":
            # Only a fork that is let go on becomes the worker, so there are never two.
            forks.sendall(b"g")
            return True
    return False


def import_for_workers() -> None:
    """Import what every worker needs, and look for garbage less often from then on."""
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
    import_module("ray")
    gc.freeze()


def run(file: str, arguments: Sequence[str]) -> None:
    """Run a worker's file in this process, as `python FILE ARGUMENTS…` does."""
    sys.path[0] = os.path.dirname(file)
    sys.argv = [file, *arguments]
    import_for_workers()
    runpy.run_path(file, run_name="__main__")


def main() -> None:
    """Become the worker."""
    command = worker_command(sys.argv[1:])
    if command is None:
        # Looking for Ray does not import it.
        (folder,) = cast(list[str], cast(ModuleSpec, find_spec("ray")).submodule_search_locations)
        runpy.run_path(os.path.join(folder, "_private", "workers", "setup_worker.py"), run_name="__main__")
        return
    python, file, *arguments = command.arguments
    if python == sys.executable and not command.variables and not file.startswith("-"):
        if not fork(file, arguments):
            run(file, arguments)
        return
    # An interpreter reads some variables when it starts.
    for name, value in command.variables.items():
        os.environ[name] = _UNKNOWN_VARIABLE.sub("", os.path.expandvars(value))
    os.execv(command.arguments[0], command.arguments)


if __name__ == "__main__":
    main()
