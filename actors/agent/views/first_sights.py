"""Logs as agents see them that have not spoken yet: the same for all of them, so what one has compiled serves the next.

In a sequence of a thousand agents each reads the log once. Compiled anew by each, it would cost the more the later one comes.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from actors.messages.session import SessionKey
from actors.rules.capacity.eviction import CacheEviction
from actors.rules.prompt.history import History

EVENT_OVERHEAD = 500
"""Bytes that a compiled event takes beside what it has on the wire, by measurement."""

MIN_EVENTS = 32
"""A shorter log is compiled by every agent: most sessions have one agent, or few, and are short when these come."""

IDLE_S = 60.0
"""A log in which no new agent has spoken for so long is evicted when another one is used."""


class SightKey(NamedTuple):
    """What a log is seen from: a branch of a session, and whether as much of it is kept as include_contents="none" shows."""

    session: SessionKey
    branch: str | None
    latest_only: bool


class FirstSight(NamedTuple):
    """The log of a session as agents see it that have not spoken in it.

    Attributes:
        history: the compiled log, which is not changed any more.
        seq: the last event that was taken in.
        size: bytes that its entries have on the wire.
    """

    history: History
    seq: int
    generation: str
    size: int


class FirstSights:
    """The logs that the agents of a process have compiled for each other: the one that was used least recently goes first.

    Args:
        max_bytes: of them all.

    Attributes:
        cache: decides which of them are kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.cache: CacheEviction[SightKey] = CacheEviction(max_bytes, IDLE_S)
        self._kept: dict[SightKey, FirstSight] = {}

    def find(self, key: SightKey) -> FirstSight | None:
        """The log that an agent may begin with that has not spoken."""
        return self._kept.get(key)

    def keep(self, key: SightKey, seen: FirstSight) -> None:
        """Keep a log for the next agent, if it is long enough, and evict others to make room."""
        if seen.seq < MIN_EVENTS:
            return
        now_s = asyncio.get_running_loop().time()
        self._kept[key] = seen
        self.cache.use(key, seen.size + EVENT_OVERHEAD * len(seen.history), now_s)
        for other in self.cache.surplus(now_s):
            if other == key:
                # A session may be larger than the cache: the latest one stays all the same.
                return
            self.cache.drop_key(other)
            del self._kept[other]
