"""The environment of programs that start a Ray of their own."""

from __future__ import annotations

import os

from runtime.frontends.testing.shared_ray import NICENESS


def without_ray(*others: str) -> dict[str, str]:
    """The variables of this process but for those of Ray, and `others` by their beginnings.

    How far workers give way stays: on a busy machine those that do hardly run at all.
    """
    return {name: value for name, value in os.environ.items() if name == NICENESS or not name.startswith(("RAY_", *others))}
