"""The retries of a turn, as its record has them."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from actors.messages.codec import decode
from actors.messages.protocol.progress import TurnProgress
from actors.session.log.open_turn import SessionTurn, TurnExtension


class _Stored(msgspec.Struct, omit_defaults=True):
    seq: int = 0
    request: str = ""


class LastRetry(TurnExtension):
    """Notes how a turn was retried last.

    Attributes:
        seq: failures up to this position do not count: it was retried after them.
        request: the request that has retried it last, or has taken events of it back; "": none has.
    """

    name = "retries"

    def __init__(self) -> None:
        self.seq = 0
        self.request = ""

    def dump(self, *, is_over: bool) -> msgspec.Struct | None:
        """See TurnExtension."""
        stored = _Stored(0 if is_over else self.seq, self.request)
        return stored if stored != _Stored() else None

    def load(self, raw: bytes) -> None:
        """See TurnExtension."""
        stored = decode(raw, _Stored) if raw else _Stored()
        self.seq, self.request = stored.seq, stored.request

    def begin(self, turn: SessionTurn, retried_seq: int | None) -> None:
        """See TurnExtension."""
        if retried_seq is not None:
            self.seq = retried_seq

    def add_progress(self, progress: TurnProgress) -> TurnProgress:
        """See TurnExtension."""
        return replace(progress, retried_seq=self.seq) if self.seq else progress
