"""What of a session is gone, when the store has gone back to an older copy of itself."""

from __future__ import annotations

from typing import NamedTuple


class LogMark(NamedTuple):
    """How far a log is: as the Session actor has acknowledged it, or as the store has it.

    Attributes:
        created_s: when the session was created, in seconds since the epoch.
        rewinds: how often the log was rewound.
        seq: the position of the newest event.
        raw: that event, encoded; None where it is not known, or was rewound.
        open_turn: the invocation id of the turn that has not ended; "" when there is none.
    """

    created_s: float
    rewinds: int
    seq: int
    raw: bytes | None
    open_turn: str


def what_is_lost(known: LogMark, stored: LogMark | None) -> str:
    """The acknowledged events that are not in the store, in words; "" when all are.

    The store may have more than is known: the connection broke while it was committing, and it has.

    Args:
        stored: None when there is no such session.
    """
    if stored is None or stored.created_s != known.created_s:
        return f"all that was stored of it, {known.seq} events"
    if stored.seq < known.seq:
        return f"its events {stored.seq + 1} to {known.seq}"
    if stored.rewinds < known.rewinds:
        return "its last rewind"
    if stored.seq > known.seq:
        return ""
    if None not in (known.raw, stored.raw) and known.raw != stored.raw:
        return f"its event {known.seq}"
    if stored.open_turn != known.open_turn:
        return f"how turn {stored.open_turn!r} has ended" if stored.open_turn else f"the record of turn {known.open_turn!r}"
    return ""
