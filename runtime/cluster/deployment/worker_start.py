"""A program: it becomes a worker of a local Ray, as Ray's own `setup_worker.py` does, and does not import Ray for that.

Ray starts each worker by a program that sets the variables of the worker's runtime environment and then becomes the worker.
Ray's own imports all of Ray, as the worker itself does once more: a third of the CPU time that the start of a worker takes.
A runtime environment that asks for more than variables is left to Ray's own program.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

CONTEXT = "--serialized-runtime-env-context="
LANGUAGE = "--language="
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
    """How to become a worker.

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


def main() -> None:
    """Become the worker."""
    command = worker_command(sys.argv[1:])
    if command is None:
        # Looking for Ray does not import it.
        (folder,) = cast(list[str], cast(ModuleSpec, find_spec("ray")).submodule_search_locations)
        runpy.run_path(os.path.join(folder, "_private", "workers", "setup_worker.py"), run_name="__main__")
        return
    for name, value in command.variables.items():
        os.environ[name] = _UNKNOWN_VARIABLE.sub("", os.path.expandvars(value))
    os.execv(command.arguments[0], command.arguments)


if __name__ == "__main__":
    main()
