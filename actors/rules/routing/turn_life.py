"""The life of a turn in a Runner. One table: what may happen to a turn, and what it is afterwards.

The Session actor gives a turn an epoch, and the Runner launches the turn in it, in a task of its own. The user's message may
still be on its way to the disk: the agents run already, and nothing that they write comes before the message.

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
3. A turn is replaced when another epoch of it runs here, or when its message could not be stored. Whatever it was before, it says
   nothing more about itself from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Literal, get_args

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
        is_stored: the user's message is on disk. Until then the turn may turn out never to have been.
    """

    phase: Phase = "launched"
    is_stored: bool = False

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
        return _AFTER[self.phase, self.is_stored, happening]

    def stored(self) -> TurnLife:
        """Its life once its message is on disk."""
        return _LIVES[self.phase, True]


_LIVES: Mapping[tuple[Phase, bool], TurnLife] = {
    (phase, is_stored): TurnLife(phase, is_stored) for phase in get_args(Phase) for is_stored in (False, True)
}
"""All lives that there are: each turn goes through three of them."""


def lives_after(table: Mapping[tuple[Phase, Happening], Phase]) -> Mapping[tuple[Phase, bool, Happening], tuple[TurnLife, bool]]:
    """The results of `TurnLife.after` by a table, of every life and for all that may happen: each turn asks twice."""
    found = {}
    for (phase, is_stored), happening in product(_LIVES, get_args(Happening)):
        then = table.get((phase, happening), phase)
        found[phase, is_stored, happening] = _LIVES[then, is_stored], phase == "running" and then in ("cancelled", "replaced")
    return found


_AFTER = lives_after(TABLE)

LAUNCHED = _LIVES["launched", False]
"""The life of a turn that is new."""
