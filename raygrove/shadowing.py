"""Finds the files that hide `actors` or `runtime`: names that other programs have, too, and Python imports the first on its path.

Rules of this file: it imports neither package, and both import it.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

PACKAGES = ("actors", "runtime")
"""The packages that are installed beside this one."""

_HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def hiding_file(package: str) -> str | None:
    """The file or folder of another module that Python imports under the name of our package; None where it imports ours."""
    loaded = sys.modules.get(package)
    spec = getattr(loaded, "__spec__", None) if loaded is not None else find_spec(package)
    file: str | None = getattr(loaded, "__file__", None) or getattr(spec, "origin", None)
    if file is None or os.path.dirname(os.path.realpath(file)) == os.path.join(_HOME, package):
        return None
    folder, name = os.path.split(file)
    return folder if name == "__init__.py" else file


def sentence(package: str, file: str) -> str:
    """The line for people: which file hides which package, and the way out."""
    return (
        f"{file} hides the package `{package}` of raygrove: Python finds one module of a name, the first on its path. "
        f"Rename {os.path.basename(file)}, or move it into a package"
    )


def hidden_packages() -> list[str]:
    """A sentence for each of our packages that is hidden."""
    return [sentence(package, file) for package in PACKAGES if (file := hiding_file(package)) is not None]


def refuse_hidden_packages() -> None:
    """Check that Python imports our packages under their names.

    Raises:
        ImportError: another file is in the place of one; the message names both.
    """
    for package in PACKAGES:
        if (file := hiding_file(package)) is not None:
            raise ImportError(sentence(package, file), name=package, path=file)
