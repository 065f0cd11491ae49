"""Where code comes from: from the user, from an installed package, or from Python and this project."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import ModuleType
from typing import Any

from actors.errors.tracebacks import is_own_file


def is_users(value: Any) -> bool:
    """True for a module of the user, and for what is defined in one: neither installed, nor Python's, nor this project's."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and _is_users_module(name)


@lru_cache(4_096)
def _is_users_module(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or not (is_own_file(file) or _is_in_packages(file))


def is_pythons(kind: type) -> bool:
    """True for a class of Python itself."""
    return kind.__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}


@lru_cache(4_096)
def is_installed(name: str | None) -> bool:
    """True for a module of a package that is neither Python's nor this project's."""
    file = getattr(sys.modules.get(name or ""), "__file__", None)
    return file is not None and _is_in_packages(file) and not is_own_file(file)


def _is_in_packages(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file
