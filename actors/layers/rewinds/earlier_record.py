"""The record that a turn had before others spoke and it went on: a rewind to before them restores it."""

from __future__ import annotations

from typing import ClassVar

from actors.interfaces.records import TurnRow
from actors.session.log.open_turn import TurnExtension


class EarlierRecord(TurnExtension):
    """Keeps the record of a turn that goes on behind events of others.

    Attributes:
        row: its record before these events, which carries the one before that; None: it has not gone on behind any.
        seq: the position behind which it has gone on then.
    """

    name: ClassVar[str] = "rewinds"
    row: TurnRow | None = None
    seq: int = 0

    def go_on(self, row: TurnRow, after_seq: int, retried_seq: int | None) -> None:
        """See TurnExtension."""
        if max(row.last_seq, self.seq) < after_seq:
            self.row, self.seq = row, after_seq
