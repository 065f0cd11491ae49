"""What tests of agents need: paths of turns to compare, leaks and hanging turns to find. The pytest plugin brings it into tests.

The names below are loaded when they are first used: pytest imports something under this package in each run that has agents.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.testing.frozen_clock import FrozenClock
    from runtime.testing.steps import Called, Failed, Said, Transferred
    from runtime.testing.turn_path import Trajectory, trajectory

__all__ = ["Called", "Failed", "FrozenClock", "Said", "Trajectory", "Transferred", "trajectory"]

_MODULES = {
    "Called": "runtime.testing.steps",
    "Failed": "runtime.testing.steps",
    "FrozenClock": "runtime.testing.frozen_clock",
    "Said": "runtime.testing.steps",
    "Trajectory": "runtime.testing.turn_path",
    "Transferred": "runtime.testing.steps",
    "trajectory": "runtime.testing.turn_path",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'runtime.testing' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
