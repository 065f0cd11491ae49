"""Chance that can be repeated: a controller that is started again has to choose the same agents."""

from __future__ import annotations

import random
from collections.abc import Sequence


def seeded_draw(seed: str, names: Sequence[str]) -> str:
    """One of the names: always the same for the same seed and names."""
    return random.Random(seed).choice(names)
