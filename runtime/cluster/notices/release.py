"""Which raygrove a process has loaded: its release, and what tells two states of its code apart that have one release."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import msgspec

from actors.layers.trees.release import this_version
from actors.messages.shown import Shown

_HOME = Path(__file__).parents[3]
_PACKAGES = ("actors", "raygrove", "runtime")


class Release(Shown, msgspec.Struct, frozen=True):
    """A raygrove.

    Attributes:
        version: as the package has it.
        code: a fingerprint of its sources.
    """

    version: str
    code: str

    def __str__(self) -> str:
        return f"raygrove {self.version} (code {self.code})"


@cache
def this_release() -> Release:
    """The raygrove that this process has loaded. Called early, since its files may be replaced while it runs."""
    mark = hashlib.blake2b(digest_size=5)
    for package in _PACKAGES:
        for file in sorted((_HOME / package).rglob("*.py")):
            mark.update(file.relative_to(_HOME).as_posix().encode())
            mark.update(file.read_bytes())
    return Release(this_version(), mark.hexdigest())
