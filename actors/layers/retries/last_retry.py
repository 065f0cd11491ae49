"""The retries of a turn, as its record has them."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec.structs import replace

from actors.interfaces.records import TurnRow
from actors.messages.protocol.progress import TurnProgress
from actors.session.log.open_turn import TurnExtension


class LastRetry(TurnExtension):
    """Notes how a turn was retried last.

    Attributes:
        seq: failures up to this position do not count: it was retried after them.
        request: the request that has retried it last, or has taken events of it back; "": none has.
    """

    name: ClassVar[str] = "retries"
    seq: int = 0
    request: str = ""

    def dump(self, *, is_over: bool) -> msgspec.Struct:
        """Everything; of a turn that is over the request, which may be sent again."""
        return LastRetry(request=self.request) if is_over else self

    def go_on(self, row: TurnRow, after_seq: int, retried_seq: int | None) -> None:
        """See TurnExtension."""
        if retried_seq is not None:
            self.seq = retried_seq

    def add_progress(self, progress: TurnProgress) -> TurnProgress:
        """See TurnExtension."""
        return replace(progress, retried_seq=self.seq) if self.seq else progress
