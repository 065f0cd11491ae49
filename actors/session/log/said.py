"""Looks for a text in what was said in a turn."""

from __future__ import annotations

from actors.messages.codec import decode_event
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from actors.session.log.event_scan import scan
from actors.session.log.reader import LogReader

PAGE = 200
"""Events that are read at once."""


class TextSearch:
    """A text that is looked for, in small or capital letters.

    Args:
        text: the text; not empty.
    """

    def __init__(self, text: str) -> None:
        self._text = text.casefold()
        # What its letters may be in other cases is more than these only beyond ASCII.
        self._bytes = text.lower().encode() if text.isascii() else b""

    async def is_in(self, reader: LogReader, key: SessionKey, turn: TurnInfo) -> bool:
        """Whether the user or an agent has said it in a turn, in a text that is no thought. Raises StoreError."""
        after_seq, end = turn.first_seq - 1, turn.last_seq + 1
        while after_seq < turn.last_seq and (page := await reader.part(key, after_seq, end, PAGE, newest=False)):
            after_seq = page[-1].seq
            if any(self._is_said(stored.raw, turn.invocation_id) for stored in page):
                return True
        return False

    def _is_said(self, raw: bytes, invocation_id: str) -> bool:
        if self._bytes and self._bytes not in raw.lower():
            return False
        return scan(raw).invocation_id == invocation_id and self._text in decode_event(raw, 0).text.casefold()
