"""The release of raygrove that runs in this process."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

UNKNOWN_RELEASE = "of an unknown version"
"""Stands for a release when raygrove runs from its sources without being installed."""


@cache
def this_version() -> str:
    """The version number of the package, or `UNKNOWN_RELEASE`."""
    try:
        return version("raygrove")
    except PackageNotFoundError:
        return UNKNOWN_RELEASE
