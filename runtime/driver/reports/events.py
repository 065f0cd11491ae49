"""The events of one turn, as its log has them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from actors.messages import protocol as p
from actors.messages.event import Event, decode_event
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from actors.refs import SessionRef

PAGE = 500
"""Events that are read at once."""


async def events_of(session: SessionRef, key: SessionKey, turn: TurnInfo) -> AsyncIterator[Event]:
    """The events of a turn, in their order: there may be those of other turns between them. Raises StoreError."""
    after_seq = turn.first_seq - 1
    while turn.first_seq and after_seq < turn.last_seq:
        request = p.ReadLog(key=key, after_seq=after_seq, before_seq=turn.last_seq + 1, limit=PAGE)
        page = (await session.ask(request)).events
        if not page:
            return
        for stored in page:
            event = decode_event(stored.raw, stored.seq)
            if event.invocation_id == turn.invocation_id:
                yield event
        after_seq = page[-1].seq
