"""Environment variables that a deployment gives to its processes, and the folders from which they import."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping


def set_variables(values: Mapping[str, str]) -> None:
    """Set environment variables in this process. Folders in PYTHONPATH are imported from at once, before all others."""
    os.environ.update(values)
    folders = values.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [folder for folder in dict.fromkeys(folders) if folder and folder not in sys.path]


_PACKAGES = ("site-packages", "dist-packages")


def with_import_folders(variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables for a process that is to import what this program does: those, and a `PYTHONPATH`."""
    given = variables.get("PYTHONPATH", "").split(os.pathsep)
    folders = [folder for folder in dict.fromkeys([*given, *_added()]) if folder]
    return {**variables, "PYTHONPATH": os.pathsep.join(folders)} if folders else dict(variables)


def _added() -> list[str]:
    """The entries of `sys.path` besides Python's own folders and those of installed packages, as absolute paths."""
    own = {os.path.realpath(folder) for folder in sysconfig.get_paths().values()}
    found = [os.path.abspath(entry) for entry in sys.path if os.path.exists(entry)]
    return [entry for entry in found if not (any(name in entry for name in _PACKAGES) or _is_pythons(entry, own))]


def _is_pythons(entry: str, own: set[str]) -> bool:
    folder = os.path.realpath(entry)
    return folder in own or os.path.dirname(folder) in own
