"""The life of a turn in a Runner. One table: what may happen to a turn, and what it is afterwards.

The Session actor gives a turn an epoch, and the Runner launches the turn in it, in a task of its own.

| phase | begun: the task's first step | cancelled | replaced | decided: how it ends |
|---|---|---|---|---|
| launched | running | cancelled | replaced | |
| running | | cancelled, and the task is interrupted | replaced, and the task is interrupted | ending |
| cancelled | | | replaced | ending, cancelled |
| replaced | | | | ending, replaced |
| ending | | | ending, replaced | |
| ending, cancelled | | | ending, replaced | |
| ending, replaced | | | | |

What is not in the table changes nothing. Rules that explain it:

1. A task that is cancelled before its first step would never run, nor close the turn. So it is not interrupted: it begins, finds
   the turn cancelled, and ends it.
2. A turn whose end is disturbed would be open for ever. So nothing interrupts a task that has decided how the turn ends.
3. A turn is replaced when another epoch of it runs here, or when it is left open for another Runner. Whatever it was before, it
   says nothing more about itself from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Phase = Literal["launched", "running", "cancelled", "replaced", "ending", "ending, cancelled", "ending, replaced"]
"""Where a turn is in its life. One that is over stays in the last three."""

Happening = Literal["begun", "cancelled", "replaced", "decided"]
"""What happens to a turn."""

TABLE: Mapping[tuple[Phase, Happening], Phase] = MappingProxyType(
    {
        ("launched", "begun"): "running",
        ("launched", "cancelled"): "cancelled",
        ("launched", "replaced"): "replaced",
        ("running", "cancelled"): "cancelled",
        ("running", "replaced"): "replaced",
        ("running", "decided"): "ending",
        ("cancelled", "replaced"): "replaced",
        ("cancelled", "decided"): "ending, cancelled",
        ("replaced", "decided"): "ending, replaced",
        ("ending", "replaced"): "ending, replaced",
        ("ending, cancelled", "replaced"): "ending, replaced",
    }
)
"""The phase after what happens in a phase; what is not here changes nothing."""


@dataclass(frozen=True, slots=True)
class TurnLife:
    """Where a turn is in its life.

    Attributes:
        phase: see the table at the head of this file.
    """

    phase: Phase = "launched"

    @property
    def is_stopped(self) -> bool:
        """It was cancelled or replaced before its task had made a step, or is being so: no agent may begin in it."""
        return self.phase in ("cancelled", "replaced")

    @property
    def was_cancelled(self) -> bool:
        """It was cancelled before how it ends was decided, and still speaks for itself."""
        return self.phase in ("cancelled", "ending, cancelled")

    @property
    def was_replaced(self) -> bool:
        """It says nothing more about itself: see rule 3."""
        return self.phase in ("replaced", "ending, replaced")

    @property
    def has_decided(self) -> bool:
        """Its end is decided: by its agents, or because it was cancelled or replaced."""
        return self.phase not in ("launched", "running")

    def after(self, happening: Happening) -> tuple[TurnLife, bool]:
        """Its life after something has happened to it.

        Returns:
            The life, and whether the turn's task has to be interrupted.
        """
        then = TABLE.get((self.phase, happening), self.phase)
        return TurnLife(then), self.phase == "running" and then in ("cancelled", "replaced")


LAUNCHED = TurnLife()
"""The life of a turn that is new."""
