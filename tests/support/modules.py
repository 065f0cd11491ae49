"""Modules that a test has imported anew, and those that all processes of a run have imported beforehand."""

from __future__ import annotations

import sys

import pytest

IMPORTED = "RAYGROVE_TEST_IMPORTED"
"""A variable: modules that the workers of a light Ray share, which the tests start, with spaces between them."""


def forget_modules(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Have packages, and all modules in them, imported anew by what comes; after the test those from before are there again.

    A module is known in two places: in `sys.modules`, and as an attribute of the package that it is in.
    """
    for name in [name for name in sys.modules if name.startswith(tuple(f"{each}." for each in packages)) or name in packages]:
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            monkeypatch.delattr(sys.modules[parent], last, raising=False)
        monkeypatch.delitem(sys.modules, name)
