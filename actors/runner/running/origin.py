"""How a turn came to run in this Runner."""

from __future__ import annotations

from dataclasses import dataclass

from actors.messages.protocol.progress import TurnProgress


@dataclass(frozen=True, slots=True)
class Fresh:
    """The turn begins with its message."""


@dataclass(frozen=True, slots=True)
class Continued:
    """The turn was paused, and its message answers. `progress` is what the log has of it."""

    progress: TurnProgress


@dataclass(frozen=True, slots=True)
class Resumed:
    """The turn was open, and the Runner that ran it is gone.

    Attributes:
        progress: what the log has of it.
        is_answered: it was paused before, and its last message answers.
    """

    progress: TurnProgress
    is_answered: bool

    @property
    def has_begun(self) -> bool:
        """False when the log has nothing after the user's event: then the turn is run from its beginning."""
        return self.is_answered or self.progress.head_seq > self.progress.opened_seq


FRESH = Fresh()

Origin = Fresh | Continued | Resumed
