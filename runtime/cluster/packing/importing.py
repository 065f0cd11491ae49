"""The code of users is imported by one thread of a process at a time.

Python has a lock for each module. A thread that imports a package, which imports a module of its own, and another thread that
imports this module, which needs the package, wait for each other: Python sees it, and one of the imports fails. Two agents that
begin at once in one process are such threads.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

from ray import cloudpickle

IMPORTING = threading.RLock()
"""Held by the thread that unpickles or imports."""


def import_alone(module: str) -> None:
    """Import a module. It raises whatever that raises."""
    with IMPORTING:
        importlib.import_module(module)


def unpickle(pickled: bytes) -> Any:
    """The value of a pickle. It imports modules, and may raise whatever they raise."""
    with IMPORTING:
        return cloudpickle.loads(pickled)
