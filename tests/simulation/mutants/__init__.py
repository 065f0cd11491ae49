"""Defects that have to be noticed: the logic as it was, or as it would be without one of its rules.

Each is a context manager; inside its block the defect is there. `mutants.md` says what notices which, and is made by
`python -m tests.simulation.mutants`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from inspect import isfunction

from tests.simulation.mutants import agents, drivers, log, runner, standbys, turns, versions

Mutant = Callable[[], AbstractContextManager[object]]

MUTANTS: Mapping[str, Mutant] = {
    name: mutant
    for module in (agents, runner, turns, log, drivers, versions, standbys)
    for name, mutant in vars(module).items()
    if isfunction(mutant) and mutant.__module__ == module.__name__ and not name.startswith("_")
}
"""All of them, by name."""
