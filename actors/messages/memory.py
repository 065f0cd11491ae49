"""Memory of sessions: one entry for each event that has a text."""

from __future__ import annotations

from actors.errors.hints import CheckedStruct
from actors.messages.shown import Shown


class MemoryEntry(Shown, CheckedStruct, frozen=True, kw_only=True, rename="camel"):
    """The text of one event of a remembered session.

    Attributes:
        session_id: the session of the event.
        author: the name of the agent, or `user`.
        timestamp: seconds since the epoch.
        text: the text of the event, thoughts left out.
    """

    session_id: str
    author: str
    timestamp: float
    text: str
