"""A program: it becomes a worker of a local Ray, as Ray's own `setup_worker.py` does, for less than half of the CPU time.

Ray starts each worker by a program that sets the variables of the worker's runtime environment and then becomes the worker.
Ray's own imports all of Ray, as the worker itself does once more, in another interpreter. This one runs the worker's file itself.
A runtime environment that asks for more than variables is left to Ray's own program.

Where `worker_forks` runs, a fork of that becomes the worker, for a fifth of the CPU time: see `worker_start.sh`.
"""

from __future__ import annotations

import gc
import json
import os
import re
import runpy
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

CONTEXT = "--serialized-runtime-env-context="
LANGUAGE = "--language="

OBJECTS = 10_000
"""New objects after which Python looks for garbage among them; by default 700, a tenth of the time that imports take."""

_UNKNOWN_VARIABLE = re.compile(r"\$\{[A-Z0-9_]+\}")


class WorkerCommand(NamedTuple):
    """What this process is to become.

    Attributes:
        arguments: the interpreter, the worker's file, and its arguments.
        variables: of the worker's runtime environment. They may refer to others, as in `${HOME}/lib`.
    """

    arguments: list[str]
    variables: dict[str, str]

    @property
    def is_for_this_python(self) -> bool:
        """True when this interpreter can run the worker's file itself: no other one is asked for, and no variables."""
        python, file, *_ = self.arguments
        return python == sys.executable and not self.variables and not file.startswith("-")


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
    """The folder in which `worker_forks` is asked for the workers of a raylet. Only its owner may enter it.

    Args:
        raylet: the raylet's own socket. Ray lets every user of the machine change the folder of that.
    """
    return f"{raylet}.f"


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
    if command.is_for_this_python:
        _, file, *arguments = command.arguments
        run(file, arguments)
        return
    # An interpreter reads some variables when it starts.
    for name, value in command.variables.items():
        os.environ[name] = _UNKNOWN_VARIABLE.sub("", os.path.expandvars(value))
    os.execv(command.arguments[0], command.arguments)


if __name__ == "__main__":
    main()
