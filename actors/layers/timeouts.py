"""The time that a turn has, by the timeout of its RunConfig."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec.structs import replace

from actors.messages.event import now_s
from actors.messages.protocol.progress import TurnProgress
from actors.session.log.open_turn import SessionTurn, TurnExtension


class Timeout(TurnExtension):
    """Notes when the time of a turn is over. The wait of a pause does not count.

    Attributes:
        deadline_s: when the turn is cancelled, in Unix seconds; 0: never.
    """

    name: ClassVar[str] = "timeout"
    deadline_s: float = 0.0

    def begin(self, turn: SessionTurn, retried_seq: int | None) -> None:
        """See TurnExtension."""
        timeout_s = turn.config.timeout
        self.deadline_s = now_s() + timeout_s if timeout_s is not None else 0.0

    def dump(self, *, is_over: bool) -> msgspec.Struct | None:
        """See TurnExtension."""
        return self if self.deadline_s and not is_over else None

    def add_progress(self, progress: TurnProgress) -> TurnProgress:
        """See TurnExtension."""
        return replace(progress, deadline_s=self.deadline_s) if self.deadline_s else progress
