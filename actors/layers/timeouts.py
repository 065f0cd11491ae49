"""The time that a turn has, by the timeout of its RunConfig."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from actors.messages.codec import decode
from actors.messages.event import now_s
from actors.messages.protocol.progress import TurnProgress
from actors.session.log.open_turn import SessionTurn, TurnExtension


class _Stored(msgspec.Struct):
    deadline_s: float


class Timeout(TurnExtension):
    """Notes when the time of a turn is over. The wait of a pause does not count.

    Attributes:
        deadline_s: when the turn is cancelled, in Unix seconds; 0: never.
    """

    name = "timeout"
    deadline_s = 0.0

    def begin(self, turn: SessionTurn, retried_seq: int | None) -> None:
        """See TurnExtension."""
        timeout_s = turn.config.timeout
        self.deadline_s = now_s() + timeout_s if timeout_s is not None else 0.0

    def dump(self, *, is_over: bool) -> msgspec.Struct | None:
        """See TurnExtension."""
        return _Stored(self.deadline_s) if self.deadline_s and not is_over else None

    def load(self, raw: bytes) -> None:
        """See TurnExtension."""
        self.deadline_s = decode(raw, _Stored).deadline_s if raw else 0.0

    def add_progress(self, progress: TurnProgress) -> TurnProgress:
        """See TurnExtension."""
        return replace(progress, deadline_s=self.deadline_s) if self.deadline_s else progress
