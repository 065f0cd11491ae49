"""Chance that can be repeated: what a supervisor has chosen or waited for it does again when it is started again."""

from __future__ import annotations

import random
from collections.abc import Sequence


def seeded_draw(seed: str, names: Sequence[str]) -> str:
    """One of the names: always the same for the same seed and names."""
    return random.Random(seed).choice(names)


def seeded_share(seed: str) -> float:
    """A number from 0 to 1: always the same for the same seed."""
    return random.Random(seed).random()
