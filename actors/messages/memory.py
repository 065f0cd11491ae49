"""What is remembered of sessions: one entry for each event that said something."""

from __future__ import annotations

import msgspec


class MemoryEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was said in one event of a remembered session.

    Attributes:
        session_id: the session it was said in.
        author: the name of the agent, or `user`.
        timestamp: seconds since the epoch.
        text: all that the event said in words, thoughts left out.
    """

    session_id: str
    author: str
    timestamp: float
    text: str
